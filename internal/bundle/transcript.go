package bundle

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/rivumi/rivumi/internal/contract"
)

// TranscriptSchema names the layout of [Transcript].
const TranscriptSchema = "rivumi-transcript/1"

// Transcript is the readable conversation of a run, folded from its log. The log is redacted before
// it is stored, so the transcript holds no secret either.
type Transcript struct {
	Schema string         `json:"schema"`
	RunID  contract.RunID `json:"runId"`
	Turns  []Turn         `json:"turns"`
}

// Turn is one message, tool result, decision or summary.
type Turn struct {
	Seq     int64           `json:"seq"`
	Step    int             `json:"step,omitempty"`
	Time    contract.Time   `json:"time"`
	Role    string          `json:"role"` // task, user, assistant, tool, approval, check, summary, notice, end
	Text    string          `json:"text,omitempty"`
	Calls   []TurnCall      `json:"calls,omitempty"`
	CallID  string          `json:"callId,omitempty"`
	Exit    *int            `json:"exitCode,omitempty"`
	Failed  bool            `json:"failed,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// TurnCall is one tool call of an assistant turn.
type TurnCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Bad       string          `json:"bad,omitempty"`
}

// Fold reads a log into its transcript and the log's head. Both are good up to the point of an error.
func Fold(log iter.Seq2[contract.Event, error]) (Transcript, LogHead, error) {
	t := Transcript{Schema: TranscriptSchema, Turns: []Turn{}}
	var head LogHead
	for e, err := range log {
		if err != nil {
			return t, head, fmt.Errorf("read log: %w", err)
		}
		line, err := e.Encode()
		if err != nil {
			return t, head, fmt.Errorf("read log: %w", err)
		}
		head = LogHead{Seq: e.Seq, Hash: contract.ChainHash(line)}
		t.RunID = e.RunID
		if turn, ok := turnOf(e); ok {
			turn.Seq, turn.Step, turn.Time = e.Seq, e.Step, e.Time
			t.Turns = append(t.Turns, turn)
		}
	}
	return t, head, nil
}

// turnOf gives the turn an event stands for; ok is false for events that are not conversation.
func turnOf(e contract.Event) (Turn, bool) {
	switch e.Type {
	case contract.TypeRunQueued:
		p, ok := contract.As[contract.RunQueued](e)
		return Turn{Role: "task", Text: p.Task.Instruction}, ok
	case contract.TypeMessageUser:
		p, ok := contract.As[contract.MessageUser](e)
		return Turn{Role: "user", Text: p.Text}, ok
	case contract.TypeModelMessage:
		return assistantTurn(e)
	case contract.TypeToolResult:
		p, ok := contract.As[contract.ToolResult](e)
		return Turn{Role: "tool", Text: p.Text, CallID: p.CallID, Exit: &p.ExitCode, Failed: p.IsError}, ok
	case contract.TypeApprovalDecided:
		p, ok := contract.As[contract.ApprovalDecided](e)
		return Turn{Role: "approval", Text: string(p.Decision.Verdict) + note(p.Decision.Note), Failed: !p.Decision.Verdict.Allows()}, ok
	case contract.TypeCheckResult:
		p, ok := contract.As[contract.CheckFinished](e)
		return Turn{Role: "check", Text: p.Tail, Exit: &p.ExitCode, Failed: !p.Passed, Details: contract.MarshalJSON(p.Argv)}, ok
	case contract.TypeCompacted:
		p, ok := contract.As[contract.Compacted](e)
		return Turn{Role: "summary", Text: p.Summary}, ok && p.Summary != ""
	case contract.TypeNotice:
		p, ok := contract.As[contract.Notice](e)
		return Turn{Role: "notice", Text: p.Text, Failed: p.Level == "error"}, ok
	default:
		return Turn{}, false
	}
}

func assistantTurn(e contract.Event) (Turn, bool) {
	p, ok := contract.As[contract.ModelMessage](e)
	t := Turn{Role: "assistant", Text: p.Text, Failed: p.Interrupted}
	for _, c := range p.ToolCalls {
		t.Calls = append(t.Calls, TurnCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Bad: c.Bad})
	}
	return t, ok
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
