package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// NewRepository makes a repository at dir, which must be empty or not there yet, with one commit of
// the files: path to content. It is for samples; the user's settings play no part in it.
func NewRepository(ctx context.Context, dir string, files map[string]string) error {
	if err := ownFolder(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	g := git{cwd: dir}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "--template=", "."},
		{"add", "-A"},
		{"commit", "-q", "--no-verify", "-m", "Start"},
	} {
		if _, err := g.run(ctx, args...); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	return nil
}
