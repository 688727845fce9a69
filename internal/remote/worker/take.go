package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
)

// TakeFile reads a file with secrets and removes it: the name is gone, durably, before the bytes are
// used. A link, a file of somebody else, one that others may read or that has a second name is
// refused. What was opened is what is checked.
func TakeFile(path string) (_ []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open secret file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at secret file: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, contract.Errorf(contract.KindForbidden, "the secret file is no regular file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, contract.Errorf(contract.KindForbidden, "the secret file can be read by others (mode %v)", info.Mode().Perm())
	case !ok || int(st.Uid) != os.Geteuid():
		return nil, contract.Errorf(contract.KindForbidden, "the secret file belongs to somebody else")
	case st.Nlink != 1:
		return nil, contract.Errorf(contract.KindForbidden, "the secret file has %d names", st.Nlink)
	case info.Size() > MaxOrderBytes:
		return nil, contract.Errorf(contract.KindTooLarge, "the secret file is longer than %d bytes", MaxOrderBytes)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("remove secret file: %w", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("remove secret file: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxOrderBytes))
	if err != nil {
		return nil, fmt.Errorf("read secret file: %w", err)
	}
	return b, nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
