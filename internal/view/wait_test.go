package view

import (
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Who draws an item needs to know when it changed, and a wait when it began.
func TestRevisionsMessagesAndWaits(t *testing.T) {
	var p Picture
	seq := int64(0)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fold := func(step int, d contract.Payload) {
		seq++
		e := contract.NewEvent(step, d)
		e.Seq, e.Time = seq, contract.At(at.Add(time.Duration(seq)*time.Second))
		p = Fold(p, e)
	}
	fold(0, contract.RunQueued{Task: contract.Task{Instruction: "x"}})
	fold(0, contract.RunStarted{Attempt: 1})
	fold(0, contract.WorkspaceReady{Root: "/r"})
	fold(1, contract.StepStarted{Step: 1, Max: 2})
	if p.Waiting != WaitModel || p.WaitSince != p.LastTime {
		t.Fatalf("waits for %q since %s", p.Waiting, p.WaitSince)
	}
	fold(1, contract.ModelDelta{Text: "a"})
	fold(1, contract.ModelDelta{Text: "b"})
	text := p.Items[len(p.Items)-1]
	if text.Seq != 5 || text.Rev != 6 || p.WaitSince != contract.At(at.Add(4*time.Second)) {
		t.Fatalf("item %+v, waiting since %s", text, p.WaitSince)
	}
	fold(1, contract.ToolStarted{CallID: "c", Name: "bash"})
	call := p.Items[len(p.Items)-1]
	fold(1, contract.MessageUser{Message: contract.Message{ID: "m1", Text: "first"}})
	fold(1, contract.MessageUser{Message: contract.Message{ID: "m2", Text: "second"}})
	fold(1, contract.ToolOutput{CallID: "c", Text: "out"})
	if call.Rev != seq || p.Waiting != WaitCommand {
		t.Fatalf("call %+v, waiting %q", call, p.Waiting)
	}
	fold(2, contract.StepStarted{Step: 2, Max: 2, Messages: []string{"m1"}})
	var queued []string
	for _, it := range p.Items {
		if it.Queue {
			queued = append(queued, it.Msg)
		}
	}
	if len(queued) != 1 || queued[0] != "m2" {
		t.Fatalf("still queued: %v", queued)
	}
	fold(2, contract.RunEnded{State: contract.Failed})
	if call.Rev != seq || call.Tool.State != ToolInterrupted {
		t.Fatalf("at the end the call is %+v", call.Tool)
	}
}
