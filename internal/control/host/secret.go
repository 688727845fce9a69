package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	secretFile  = "secret"
	secretBytes = 32
)

// loadSecret reads the secret of a state directory, and makes it the first time. Processes that
// come at once agree: the file is written whole under another name and linked into place.
func loadSecret(dir string, entropy io.Reader) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	secret, err := readSecret(path)
	if !errors.Is(err, os.ErrNotExist) {
		return secret, err
	}
	fresh := make([]byte, secretBytes)
	if _, err := io.ReadFull(entropy, fresh); err != nil {
		return nil, fmt.Errorf("read entropy: %w", err)
	}
	temp, err := writeTemp(dir, fresh)
	if err != nil {
		return nil, err
	}
	err = os.Link(temp, path)
	if err = errors.Join(ignoreExist(err), os.Remove(temp), syncDir(dir)); err != nil {
		return nil, err
	}
	return readSecret(path)
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, contract.Errorf(contract.KindForbidden, "%s must be a file that only its owner can read (mode 0600), it is %v", path, info.Mode())
	}
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) != secretBytes {
		err = contract.Errorf(contract.KindInternal, "%s has %d bytes, not %d", path, len(secret), secretBytes)
	}
	return secret, err
}

func writeTemp(dir string, data []byte) (string, error) {
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func ignoreExist(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
