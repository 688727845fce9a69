package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Trust is the set of project files the user has agreed to: root of the repository to the
// SHA-256 of the file, so that a changed file is asked for again.
type Trust struct {
	path  string
	Roots map[string]string `json:"roots"`
}

// OpenTrust reads the trust store at path; one that does not exist trusts nothing.
func OpenTrust(path string) (Trust, error) {
	t := Trust{path: path, Roots: map[string]string{}}
	raw, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("read trust store: %w", err)
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return Trust{path: path}, fmt.Errorf("read trust store %s: %w", path, err)
	}
	return t, nil
}

// Holds reports whether exactly this content is trusted for root.
func (t Trust) Holds(root string, content []byte) bool {
	return t.Roots[root] != "" && t.Roots[root] == digest(content)
}

// Add trusts the content for root, durably.
func (t Trust) Add(root string, content []byte) error {
	t.Roots[root] = digest(content)
	return t.write()
}

// Remove ends the trust in root; it is no error when there is none.
func (t Trust) Remove(root string) error {
	delete(t.Roots, root)
	return t.write()
}

func (t Trust) write() error {
	raw, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("write trust store: %w", err)
	}
	return replaceFile(t.path, append(raw, '\n'))
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// replaceFile writes a private file all or nothing.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
