package mem_test

import (
	"testing"

	"github.com/rivumi/rivumi/internal/control/store"
	"github.com/rivumi/rivumi/internal/control/store/mem"
	"github.com/rivumi/rivumi/internal/control/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New() })
}
