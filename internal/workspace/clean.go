package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Layers are a tree as an overlay that is mounted nowhere yet.
type Layers struct{ Lower, Upper, Work string }

// CheckoutLayers is [Workspace.Checkout] at the cost of what changed: a new upper layer in dir over the
// base tree that the workspace stands on. ok is false where the tree must be laid down whole: a
// workspace without layers, a sparse one, or changed attributes, which decide the bytes of other files.
func (w *Workspace) CheckoutLayers(ctx context.Context, s Snapshot, dir string) (l Layers, ok bool, err error) {
	if w.rec.Way != WayOverlay || slices.ContainsFunc(w.base, func(e entry) bool { return e.skip }) {
		return l, false, nil
	}
	out, err := git{dir: w.ledger()}.run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", w.rec.Base+"^{tree}", s.FinalTree)
	if err != nil {
		return l, false, fmt.Errorf("compare with the base: %w", err)
	}
	changed, gone, err := parseChanges(string(out), w.format)
	if err != nil {
		return l, false, err
	}
	attributes := func(path string) bool { return baseName(path) == ".gitattributes" }
	if slices.ContainsFunc(gone, attributes) || slices.ContainsFunc(changed, func(e entry) bool { return attributes(e.path) }) {
		return l, false, nil
	}
	if err := ownFolder(dir); err != nil {
		return l, false, err
	}
	l = Layers{Lower: w.rec.Lower, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
	for _, d := range []string{l.Upper, l.Work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return l, false, fmt.Errorf("make layer: %w", err)
		}
	}
	if err := w.whiteOut(l.Upper, gone, changed); err != nil {
		return l, false, err
	}
	if err := w.layChanged(ctx, l.Upper, changed); err != nil {
		return l, false, err
	}
	return l, true, w.addIncluded(l.Upper)
}

// layChanged writes entries as files into a layer, with the conversions that the base's attributes ask
// for: the attribute files are written beside them, as they are below.
func (w *Workspace) layChanged(ctx context.Context, layer string, changed []entry) error {
	if len(changed) == 0 {
		return nil
	}
	for i := range w.base {
		if baseName(w.base[i].path) == ".gitattributes" {
			changed = append(changed, entry{path: w.base[i].path, mode: w.base[i].mode, oid: w.base[i].oid})
		}
	}
	index := filepath.Join(w.dir, "stage-layer.index")
	defer os.Remove(index)
	if err := os.WriteFile(index, formatIndex(changed, w.format), 0o600); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	g := git{dir: w.ledger(), tree: layer, index: index}
	if _, err := g.run(ctx, "checkout-index", "--all", "--force", "--quiet"); err != nil {
		return fmt.Errorf("lay down the changes: %w", err)
	}
	return nil
}

// parseChanges reads the output of diff-tree -z --raw without renames.
func parseChanges(out, format string) (changed []entry, gone []string, err error) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if out == "" {
		return nil, nil, nil
	}
	bad := contract.Errorf(contract.KindInternal, "git listed changes in a form that is not known")
	if len(fields)%2 != 0 {
		return nil, nil, bad
	}
	for i := 0; i < len(fields); i += 2 {
		meta := strings.Fields(fields[i])
		if len(meta) != 5 {
			return nil, nil, bad
		}
		if meta[4] == "D" {
			gone = append(gone, fields[i+1])
			continue
		}
		mode, err := strconv.ParseUint(meta[1], 8, 32)
		if err != nil || !isOID(meta[3], format) {
			return nil, nil, bad
		}
		changed = append(changed, entry{path: fields[i+1], mode: uint32(mode), oid: meta[3]})
	}
	return changed, gone, nil
}
