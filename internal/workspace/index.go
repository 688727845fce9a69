package workspace

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // git's own format
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Modes of index and tree entries.
const (
	modeFile = 0o100644
	modeExec = 0o100755
	modeLink = 0o120000
	modeGit  = 0o160000 // a submodule: a commit of another repository
)

// entry is one line of a git index. The stat fields are those of git: 32 bits of each.
type entry struct {
	path                           string
	mode                           uint32
	oid                            string // hex
	ctime, ctimeNS, mtime, mtimeNS uint32
	dev, ino, uid, gid, size       uint32
	stage                          uint8
	assumeValid, skip, intentToAdd bool

	laid bool // not of git: the file was laid into the upper layer of an overlay
}

// errComplexIndex says that an index is split or sparse: git must rewrite it first.
var errComplexIndex = fmt.Errorf("index is split or sparse")

func newHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // git's own format
}

// parseIndex reads a git index of version 2, 3 or 4. Its bytes are checked, never trusted.
func parseIndex(b []byte, format string) ([]entry, error) {
	size := newHash(format).Size()
	if len(b) < 12+size || string(b[:4]) != "DIRC" {
		return nil, fmt.Errorf("index: bad header")
	}
	version, count := binary.BigEndian.Uint32(b[4:]), int(binary.BigEndian.Uint32(b[8:]))
	if version < 2 || version > 4 || count > len(b)/(size+42) {
		return nil, fmt.Errorf("index: version %d with %d entries", version, count)
	}
	body := b[:len(b)-size]
	text := string(body)                      // paths are parts of it: two allocations for the whole index,
	names := make([]byte, 0, count*size*2+64) // not three for each of perhaps 100 000 entries
	entries, pos, last := make([]entry, 0, count), 12, ""
	for range count {
		e, next, err := parseEntry(body, pos, entryShape{version: version, oid: size, last: last, text: text})
		if err != nil {
			return nil, err
		}
		names = hex.AppendEncode(names, body[pos+40:pos+40+size])
		entries, pos, last = append(entries, e), next, e.path
		if e.mode == 0o040000 {
			return nil, errComplexIndex
		}
	}
	all := string(names)
	for i := range entries {
		entries[i].oid = all[i*size*2 : (i+1)*size*2]
	}
	for pos+8 <= len(body) {
		name, n := string(body[pos:pos+4]), int(binary.BigEndian.Uint32(body[pos+4:]))
		if name == "link" || name == "sdir" {
			return nil, errComplexIndex
		}
		pos += 8 + n
	}
	return entries, nil
}

type entryShape struct {
	version uint32
	oid     int
	last    string
	text    string // the same bytes
}

func parseEntry(b []byte, at int, shape entryShape) (e entry, next int, err error) {
	head := at + 40 + shape.oid + 2
	if head > len(b) {
		return e, 0, fmt.Errorf("index: cut short")
	}
	u := func(i int) uint32 { return binary.BigEndian.Uint32(b[at+4*i:]) }
	e = entry{
		ctime: u(0), ctimeNS: u(1), mtime: u(2), mtimeNS: u(3), dev: u(4), ino: u(5), mode: u(6), uid: u(7), gid: u(8), size: u(9),
	}
	flags := binary.BigEndian.Uint16(b[head-2:])
	e.assumeValid, e.stage = flags&0x8000 != 0, uint8(flags>>12&3)
	if flags&0x4000 != 0 {
		if head+2 > len(b) {
			return e, 0, fmt.Errorf("index: cut short")
		}
		more := binary.BigEndian.Uint16(b[head:])
		e.skip, e.intentToAdd = more&0x4000 != 0, more&0x2000 != 0
		head += 2
	}
	keep := ""
	if shape.version == 4 {
		strip, n := indexVarint(b[head:])
		if n == 0 || strip > len(shape.last) {
			return e, 0, fmt.Errorf("index: bad path prefix")
		}
		keep, head = shape.last[:len(shape.last)-strip], head+n
	}
	n := bytes.IndexByte(b[head:], 0)
	if n < 0 {
		return e, 0, fmt.Errorf("index: path without end")
	}
	e.path = shape.text[head : head+n]
	if shape.version == 4 {
		e.path = keep + e.path
		return e, head + n + 1, nil
	}
	return e, at + (head-at+n+8)&^7, nil
}

// indexVarint reads git's offset encoding; n is 0 for a bad one.
func indexVarint(b []byte) (v, n int) {
	for n < len(b) && n < 5 {
		c := b[n]
		n++
		v |= int(c & 127)
		if c&128 == 0 {
			return v, n
		}
		v = (v + 1) << 7
	}
	return 0, 0
}

// formatIndex writes entries as an index of version 3 or, where no entry needs it, 2.
func formatIndex(entries []entry, format string) []byte {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.stage, b.stage))
	})
	version := uint32(2)
	if slices.ContainsFunc(entries, func(e entry) bool { return e.skip || e.intentToAdd }) {
		version = 3
	}
	b := make([]byte, 0, 12+len(entries)*112)
	b = append(b, "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries))) //nolint:gosec // bounded by memory
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	h := newHash(format)
	h.Write(b)
	return h.Sum(b)
}

func appendEntry(b []byte, e *entry) []byte {
	at := len(b)
	for _, v := range [...]uint32{e.ctime, e.ctimeNS, e.mtime, e.mtimeNS, e.dev, e.ino, e.mode, e.uid, e.gid, e.size} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b, _ = hex.AppendDecode(b, []byte(e.oid)) // hex by construction
	flags := uint16(min(len(e.path), 0xfff)) | uint16(e.stage)<<12
	if e.assumeValid {
		flags |= 0x8000
	}
	var more uint16
	if e.skip {
		more |= 0x4000
	}
	if e.intentToAdd {
		more |= 0x2000
	}
	if more != 0 {
		flags |= 0x4000
	}
	b = binary.BigEndian.AppendUint16(b, flags)
	if more != 0 {
		b = binary.BigEndian.AppendUint16(b, more)
	}
	b = append(b, e.path...)
	for pad := 8 - (len(b)-at)%8; pad > 0; pad-- {
		b = append(b, 0)
	}
	return b
}

// setStat fills the stat fields of an entry from a file.
func (e *entry) setStat(st *unix.Stat_t) {
	e.ctime, e.ctimeNS = uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec) //nolint:gosec // git keeps 32 bits
	e.mtime, e.mtimeNS = uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec) //nolint:gosec // git keeps 32 bits
	e.dev, e.ino = uint32(st.Dev), uint32(st.Ino)                  //nolint:gosec // git keeps 32 bits
	e.uid, e.gid, e.size = st.Uid, st.Gid, uint32(st.Size)         //nolint:gosec // git keeps 32 bits
}

// sameStat reports whether the file is, by its stat, the one the entry was made from. Owner
// and device are left out: an overlay and a container may show others.
func (e *entry) sameStat(st *unix.Stat_t, fileMode bool) bool {
	mode := gitMode(st)
	if mode != e.mode && (fileMode || mode&unix.S_IFMT != e.mode&unix.S_IFMT) {
		return false
	}
	return e.size == uint32(st.Size) && e.mtime == uint32(st.Mtim.Sec) && e.ctime == uint32(st.Ctim.Sec) && //nolint:gosec // git keeps 32 bits
		(e.mtimeNS == 0 || e.mtimeNS == uint32(st.Mtim.Nsec)) && //nolint:gosec // below 1e9
		(e.ctimeNS == 0 || e.ctimeNS == uint32(st.Ctim.Nsec)) && //nolint:gosec // below 1e9
		e.ino == uint32(st.Ino) //nolint:gosec // git keeps 32 bits
}

// gitMode is the mode git gives a file, 0 for what it cannot hold.
func gitMode(st *unix.Stat_t) uint32 {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return modeLink
	case unix.S_IFREG:
		if st.Mode&0o100 != 0 {
			return modeExec
		}
		return modeFile
	}
	return 0
}
