package proc_test

import (
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if raceEnabled && os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	if spec := os.Getenv(ownerEnv); spec != "" {
		os.Exit(ownerMain(spec))
	}
	goleak.VerifyTestMain(m)
}

func TestPlainSuite(t *testing.T) {
	sandboxtest.Suite(t, proc.New(proc.Options{Want: sandbox.TierNone}))
}

func TestFullSuite(t *testing.T) {
	sandboxtest.Suite(t, proc.New(proc.Options{Want: sandbox.TierFull}))
}

func itoa(n int) string { return strconv.Itoa(n) }
