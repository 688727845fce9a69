package modeltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

// Cancel checks a model whose server sends one piece of text and then hangs: a cancelled context
// ends the call soon, with its cause, and leaving the loop ends it without any error.
func Cancel(t *testing.T, m model.Model) {
	t.Helper()
	why := errors.New("enough of it")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	var begin time.Time
	for c, err := range m.Stream(ctx, Request()) {
		last = err
		if c.Kind == model.ChunkText {
			begin = time.Now()
			cancel(why)
		}
	}
	e, ok := model.AsError(last)
	if !ok || e.Kind != model.ErrCanceled || !errors.Is(last, why) || !e.Emitted {
		t.Errorf("after a cancel: %v", last)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("the cancel took %s", d)
	}
	for c, err := range m.Stream(t.Context(), Request()) {
		if err != nil || c.Kind == model.ChunkText {
			if err != nil {
				t.Errorf("before leaving: %v", err)
			}
			break
		}
	}
}
