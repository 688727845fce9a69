//go:build !linux

package matrix

import (
	"context"
	"errors"
)

// Main does nothing here.
func Main([]string) (handled bool, code int) { return false, 0 }

// Run is only built for Linux.
func Run(context.Context, Options) (Table, error) {
	return Table{}, errors.New("the attack matrix is only built for Linux")
}
