package sqlite_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/control/store"
	"github.com/rivumi/rivumi/internal/control/store/sqlite"
	"github.com/rivumi/rivumi/internal/control/store/storetest"
)

func TestMain(m *testing.M) {
	if file := childFile(); file != "" {
		child(file)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "state.db")) })
}

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
