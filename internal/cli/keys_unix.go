//go:build unix

package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// keyTick is how often a wait for a key looks whether it is still wanted.
const keyTick = 100 * time.Millisecond

// keys reads single keys from a terminal. Signals and output processing stay as they were.
type keys struct {
	f   *os.File
	old unix.Termios
}

// openKeys switches the terminal to single keys without echo. The caller closes it.
func openKeys(s *IO) (*keys, error) {
	if s.InFile == nil || !s.InTTY {
		return nil, errNoKeys
	}
	fd := int(s.InFile.Fd())
	old, err := unix.IoctlGetTermios(fd, ioctlGet)
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	now := *old
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, ioctlSet, &now); err != nil {
		return nil, fmt.Errorf("change terminal settings: %w", err)
	}
	return &keys{f: s.InFile, old: *old}, nil
}

func (k *keys) close() {
	// Nothing can be done about a terminal that is gone.
	_ = unix.IoctlSetTermios(int(k.f.Fd()), ioctlSet, &k.old)
}

// ignore drops what is typed during d and what was typed before.
func (k *keys) ignore(d time.Duration) {
	end := time.Now().Add(d)
	var buf [256]byte
	for {
		left := time.Until(end)
		if !readable(k.f, max(0, left)) {
			return
		}
		if n, err := k.f.Read(buf[:]); err != nil || n == 0 {
			return
		}
	}
}

// next waits for one key.
func (k *keys) next(ctx context.Context) (byte, error) {
	for ctx.Err() == nil {
		if !readable(k.f, keyTick) {
			continue
		}
		var buf [64]byte
		n, err := k.f.Read(buf[:])
		if err != nil || n == 0 {
			return 0, errNoKeys
		}
		if n == 1 {
			return buf[0], nil // several bytes at once are a paste or a function key, not a decision
		}
	}
	return 0, context.Cause(ctx)
}
