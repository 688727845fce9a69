package gateway

import (
	"encoding/json"

	"github.com/rivumi/rivumi/internal/contract"
)

// usage gathers what the pieces of an answer say about its tokens, on both wires.
type usage struct {
	seen bool // an output count came
	u    contract.ModelUsage
}

// counts are the words of both wires for tokens.
type counts struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	PromptMore struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

// take looks at one JSON document of an answer. Counts only grow, whatever the order of the pieces.
func (s *usage) take(doc []byte) {
	var piece struct {
		Usage   *counts `json:"usage"`
		Message struct {
			Usage *counts `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(doc, &piece) != nil {
		return
	}
	for _, c := range []*counts{piece.Message.Usage, piece.Usage} {
		if c != nil {
			s.add(*c)
		}
	}
}

func (s *usage) add(c counts) {
	u := &s.u
	if c.Prompt != nil {
		u.CacheRead = max(u.CacheRead, c.PromptMore.Cached)
		u.Input = max(u.Input, *c.Prompt-c.PromptMore.Cached)
	}
	if c.Completion != nil {
		s.seen = true
		u.Output, u.Reasoning = max(u.Output, *c.Completion), max(u.Reasoning, c.CompletionMore.Reasoning)
	}
	raise := func(to *int64, v *int64) {
		if v != nil {
			*to = max(*to, *v)
		}
	}
	raise(&u.Input, c.Input)
	raise(&u.Output, c.Output)
	raise(&u.CacheRead, c.CacheRead)
	raise(&u.CacheWrite, c.CacheWrite)
	s.seen = s.seen || c.Output != nil
}

// total is what a whole answer used. One that told no output count is not known, and stays charged
// as it was reserved.
func (s *usage) total() contract.ModelUsage {
	u := s.u
	u.Known = s.seen
	return u
}
