package cassettes

import (
	"encoding/json"
	"slices"
	"strings"
)

// documents gives the JSON documents of a body: its data lines, or the body itself.
func documents(body string) []string {
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		return []string{body}
	}
	var out []string
	for line := range strings.Lines(body) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok && strings.TrimSpace(d) != "[DONE]" {
			out = append(out, d)
		}
	}
	return out
}

func expect(e exchange) (reading, error) {
	if e.messages {
		return expectMessages(e.body)
	}
	return expectChat(e.body)
}

type chatPart struct {
	Content string `json:"content"`
	Calls   []struct {
		Index    int `json:"index"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func expectChat(body string) (reading, error) {
	var r reading
	names, args := map[int]string{}, map[int]string{}
	for _, d := range documents(body) {
		var c struct {
			Choices []struct {
				Delta   chatPart `json:"delta"`
				Message chatPart `json:"message"`
				Finish  string   `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				Prompt     int64 `json:"prompt_tokens"`
				Completion int64 `json:"completion_tokens"`
			} `json:"usage"`
			Groq *struct {
				Usage *struct {
					Prompt     int64 `json:"prompt_tokens"`
					Completion int64 `json:"completion_tokens"`
				} `json:"usage"`
			} `json:"x_groq"`
		}
		if err := json.Unmarshal([]byte(d), &c); err != nil {
			return r, err
		}
		for _, ch := range c.Choices {
			for i, p := range []chatPart{ch.Delta, ch.Message} {
				r.text += p.Content
				for n, call := range p.Calls {
					at := call.Index
					if i == 1 { // a whole message counts by position
						at = n
					}
					names[at] += call.Function.Name
					args[at] += call.Function.Arguments
				}
			}
			if ch.Finish != "" {
				r.finish = ch.Finish
			}
		}
		if c.Groq != nil && c.Groq.Usage != nil {
			r.in, r.out = c.Groq.Usage.Prompt, c.Groq.Usage.Completion
		}
		if c.Usage != nil {
			r.in, r.out = c.Usage.Prompt, c.Usage.Completion
		}
	}
	for _, i := range sorted(names) {
		r.calls = append(r.calls, names[i]+canonical(args[i]))
	}
	return r, nil
}

type messagesUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Write  int64 `json:"cache_creation_input_tokens"`
}

type messagesBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func expectMessages(body string) (reading, error) {
	var r reading
	names, args := map[int]string{}, map[int]string{}
	use := func(u *messagesUsage) {
		if u == nil {
			return
		}
		if in := u.Input + u.Read + u.Write; in > 0 {
			r.in = in
		}
		r.out = u.Output
	}
	block := func(i int, b messagesBlock, whole bool) {
		r.text += b.Text
		if b.Type == "tool_use" {
			names[i] = b.Name
			if whole {
				args[i] = string(b.Input)
			}
		}
	}
	for _, d := range documents(body) {
		var e struct {
			Index   int             `json:"index"`
			Content []messagesBlock `json:"content"`
			Stop    string          `json:"stop_reason"`
			Usage   *messagesUsage  `json:"usage"`
			Message *struct {
				Usage *messagesUsage `json:"usage"`
			} `json:"message"`
			Block *messagesBlock `json:"content_block"`
			Delta struct {
				Text string `json:"text"`
				JSON string `json:"partial_json"`
				Stop string `json:"stop_reason"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(d), &e); err != nil {
			return r, err
		}
		for i, b := range e.Content {
			block(i, b, true)
		}
		if e.Block != nil {
			block(e.Index, *e.Block, false)
		}
		r.text += e.Delta.Text
		if names[e.Index] != "" {
			args[e.Index] += e.Delta.JSON
		}
		if e.Message != nil {
			use(e.Message.Usage)
		}
		use(e.Usage)
		r.finish = max(r.finish, e.Stop+e.Delta.Stop)
	}
	for _, i := range sorted(names) {
		r.calls = append(r.calls, names[i]+canonical(args[i]))
	}
	return r, nil
}

func sorted(m map[int]string) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
