package workspace

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// rawMark begins a name that JSON cannot hold as it is: no file name has a NUL in it.
const rawMark = "\x00"

// rawName makes a name that survives JSON: git and file systems take any bytes, JSON only UTF-8.
func rawName(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return rawMark + base64.StdEncoding.EncodeToString([]byte(name))
}

// nameOf gives back what rawName was given.
func nameOf(s string) string {
	code, ok := strings.CutPrefix(s, rawMark)
	if !ok {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return s // stays a name no file has
	}
	return string(b)
}

func eachName(names []string, do func(string) string) []string {
	if names == nil {
		return nil
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = do(n)
	}
	return out
}

// names gives the receipt with do over the names in it.
func (r Receipt) names(do func(string) string) Receipt {
	r.Root, r.Dir = do(r.Root), do(r.Dir)
	r.Conflicts, r.CodeLater, r.Skipped = eachName(r.Conflicts, do), eachName(r.CodeLater, do), eachName(r.Skipped, do)
	files := make([]AppliedFile, len(r.Files))
	for i, f := range r.Files {
		f.Path = do(f.Path)
		files[i] = f
	}
	r.Files = files
	return r
}

// names gives the record with do over the names in it.
func (r record) names(do func(string) string) record {
	r.Root, r.Common, r.Lower = do(r.Root), do(r.Common), do(r.Lower)
	r.Objects, r.Gone, r.Included = eachName(r.Objects, do), eachName(r.Gone, do), eachName(r.Included, do)
	return r
}
