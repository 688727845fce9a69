package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rivumi/rivumi/internal/contract"
)

// UnpackLimits bound what [Unpack] accepts. Zero fields mean the numbers of [DefaultLimits].
type UnpackLimits struct {
	Entries int
	Bytes   int64 // unpacked, all entries together
	Ratio   int64 // unpacked over packed, beyond the first MiB
}

// DefaultLimits are 4096 entries, 1 GiB and a ratio of 300.
func DefaultLimits() UnpackLimits { return UnpackLimits{Entries: 4096, Bytes: 1 << 30, Ratio: 300} }

func (l UnpackLimits) orDefault() UnpackLimits {
	d := DefaultLimits()
	if l.Entries > 0 {
		d.Entries = l.Entries
	}
	if l.Bytes > 0 {
		d.Bytes = l.Bytes
	}
	if l.Ratio > 0 {
		d.Ratio = l.Ratio
	}
	return d
}

// ratioFloor is how much may be unpacked before the ratio counts: small files pack extremely well.
const ratioFloor = 1 << 20

// Unpack reads a packed bundle into the folder dir, which must not exist. It takes plain files with
// artifact names only: no folder, path, link, device, sparse file or second file of a name, and nothing
// behind the end of the archive. On an error nothing is left behind. What it unpacked is still
// unchecked: see [Check].
func Unpack(r io.Reader, dir string, l UnpackLimits) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return contract.Errorf(contract.KindConflict, "unpack bundle: %s exists", dir)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".unpack-*")
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	err = errors.Join(unpack(r, root, l.orDefault()), root.Close())
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	return nil
}

func unpack(r io.Reader, root *os.Root, l UnpackLimits) error {
	packed := &counter{r: r}
	in := bufio.NewReader(packed)
	zip, err := gzip.NewReader(in)
	if err != nil {
		return contract.Errorf(contract.KindInvalid, "not a packed bundle: %w", err)
	}
	zip.Multistream(false)
	bounded := &bounds{zip: zip, packed: packed, limits: l}
	archive := tar.NewReader(bounded)
	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid(err)
		}
		if n == l.Entries {
			return contract.Errorf(contract.KindTooLarge, "more than %d entries", l.Entries)
		}
		if err := unpackFile(archive, h, root); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, bounded); err != nil { // the padding of the tar
		return invalid(err)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return contract.Errorf(contract.KindInvalid, "data behind the end of the archive")
	}
	return nil
}

func unpackFile(archive io.Reader, h *tar.Header, root *os.Root) error {
	if h.Typeflag != tar.TypeReg || !ValidName(h.Name) || h.Linkname != "" {
		return contract.Errorf(contract.KindInvalid, "entry %q is not a plain artifact", h.Name)
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return contract.Errorf(contract.KindInvalid, "entry %q comes twice", h.Name)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, archive)
	if err = errors.Join(err, f.Close()); err != nil {
		return invalid(err)
	}
	return nil
}

// invalid gives an error of the archive its kind, unless it has one.
func invalid(err error) error {
	if e, ok := errors.AsType[*contract.Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err // ours, not the archive's: a full disk
	}
	return contract.Errorf(contract.KindInvalid, "not a packed bundle: %w", err)
}

// counter counts the bytes read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// bounds stops unpacking beyond the limits, before the bytes reach the disk.
type bounds struct {
	zip    io.Reader
	packed *counter
	limits UnpackLimits
	n      int64
}

func (b *bounds) Read(p []byte) (int, error) {
	n, err := b.zip.Read(p)
	b.n += int64(n)
	if b.n > b.limits.Bytes+int64(b.limits.Entries)*4096 { // headers of the tar come on top
		return 0, contract.Errorf(contract.KindTooLarge, "more than %d bytes unpacked", b.limits.Bytes)
	}
	if b.n > ratioFloor && b.n/b.limits.Ratio > b.packed.n {
		return 0, contract.Errorf(contract.KindTooLarge, "unpacks to more than %d times its size", b.limits.Ratio)
	}
	return n, err
}
