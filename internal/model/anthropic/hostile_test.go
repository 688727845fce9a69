package anthropic_test

import (
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/modeltest"
	"github.com/rivumi/rivumi/internal/model/wire"
)

func TestHostileProviders(t *testing.T) {
	var tally *modeltest.Tally
	t.Run("cases", func(t *testing.T) {
		tally = modeltest.Run(t, modeltest.MessagesCases(), func(base string, o wire.Options) (model.Model, error) {
			return anthropic.New(anthropic.Options{BaseURL: base, Key: modeltest.Key, Wire: o})
		})
	})
	t.Logf("%d cases, %d silent successes, %d executable cut calls", tally.Cases.Load(), tally.SilentSuccesses.Load(), tally.ExecutableCutCalls.Load())
	if tally.SilentSuccesses.Load() != 0 || tally.ExecutableCutCalls.Load() != 0 {
		t.Error("the gate is 0 and 0")
	}
}
