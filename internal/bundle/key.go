package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeyFile is the name of the signing key in the state directory.
const KeyFile = "manifest.key"

// Signer signs manifests with this installation's key.
type Signer struct{ key ed25519.PrivateKey }

// Public is the public half of the key.
func (s *Signer) Public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }

func (s *Signer) sign(msg []byte) []byte { return ed25519.Sign(s.key, msg) }

// OpenSigner reads the signing key of a state directory and makes one where there is none yet. The
// file is 0600; one that others may read, or that is not a plain file, is refused. Two processes that
// start at once end up with the same key.
func OpenSigner(stateDir string) (*Signer, error) {
	path := filepath.Join(stateDir, KeyFile)
	s, err := readSigner(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("make signing key: %w", err)
	}
	if err := publishKey(stateDir, path, hex.EncodeToString(seed)+"\n"); err != nil {
		return nil, fmt.Errorf("store signing key: %w", err)
	}
	return readSigner(path)
}

// publishKey writes a whole key aside and links it into place, so that nobody ever reads half a key
// and the first writer wins.
func publishKey(dir, path, text string) error {
	f, err := os.CreateTemp(dir, ".manifest-key-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // the link below is what counts
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func readSigner(path string) (*Signer, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read signing key: %s must be a plain file with mode 0600, not %s", path, info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("read signing key: %s does not hold a key", path)
	}
	return &Signer{key: ed25519.NewKeyFromSeed(seed)}, nil
}
