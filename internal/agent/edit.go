package agent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// replaced gives data with old replaced by new, byte for byte: nothing outside the match changes,
// whatever its encoding. Where old has LF line ends and the file does not at that place, the match
// and what is put there take the line ends of the file, line by line.
func replaced(data []byte, old, new string, all bool) (after []byte, note string, err error) {
	if old == "" {
		return nil, "", errors.New("old must not be empty; use write for a new file")
	}
	if n := bytes.Count(data, []byte(old)); n > 0 {
		if n > 1 && !all {
			return nil, "", manyMatches(data, lineStarts(data, []byte(old)))
		}
		return exact(data, old, new), "", nil
	}
	spans := looseSpans(data, old)
	switch {
	case len(spans) == 0:
		return nil, "", noMatch(data, old)
	case len(spans) > 1 && !all:
		lines := make([]int, len(spans))
		for i, s := range spans {
			lines[i] = 1 + bytes.Count(data[:s[0]], []byte("\n"))
		}
		return nil, "", manyMatches(data, lines)
	}
	at := 0
	for _, s := range spans {
		after = append(after, data[at:s[0]]...)
		after = append(after, withEnds(data[s[0]:s[1]], new)...)
		at = s[1]
	}
	return append(after, data[at:]...), "kept the line ends of the file", nil
}

// exact replaces every occurrence. Lines that new adds to a line which ends with CRLF end so too,
// unless old or new name their line ends themselves.
func exact(data []byte, old, new string) []byte {
	if strings.Contains(old, "\n") || !strings.Contains(new, "\n") || strings.Contains(new, "\r") {
		return bytes.ReplaceAll(data, []byte(old), []byte(new))
	}
	var out []byte
	for {
		i := bytes.Index(data, []byte(old))
		if i < 0 {
			return append(out, data...)
		}
		put := new
		if end := bytes.IndexByte(data[i:], '\n'); end > 0 && data[i+end-1] == '\r' {
			put = strings.ReplaceAll(new, "\n", "\r\n")
		}
		out = append(append(out, data[:i]...), put...)
		data = data[i+len(old):]
	}
}

// looseSpans finds old where CRLF and LF count as the same; spans are byte ranges of data.
func looseSpans(data []byte, old string) [][2]int {
	want := strings.ReplaceAll(old, "\r\n", "\n")
	if !strings.Contains(want, "\n") || !bytes.Contains(data, []byte("\r\n")) {
		return nil
	}
	flat := make([]byte, 0, len(data))
	from := make([]int, 0, len(data)+1) // where each byte of flat is in data
	for i, c := range data {
		if c == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			continue
		}
		flat, from = append(flat, c), append(from, i)
	}
	from = append(from, len(data))
	var spans [][2]int
	for at := 0; ; {
		i := bytes.Index(flat[at:], []byte(want))
		if i < 0 {
			return spans
		}
		start, end := at+i, at+i+len(want)
		first, last := from[start], from[end]
		if flat[start] == '\n' && first > 0 && data[first-1] == '\r' {
			first-- // the match begins with a line end: all of it
		}
		if last > 0 && end < len(flat) && flat[end] == '\n' && data[last-1] == '\r' {
			last-- // the CR before the next line end is not part of the match
		}
		spans = append(spans, [2]int{first, last})
		at = end
	}
}

// withEnds gives new for the place of region: lines that are the same at its beginning and end keep
// their own line ends, the others get the one that is most common in the region.
func withEnds(region []byte, new string) []byte {
	was := bytes.SplitAfter(region, []byte("\n"))
	now := strings.Split(strings.ReplaceAll(new, "\r\n", "\n"), "\n")
	same := func(i, k int) bool { return string(bytes.TrimRight(was[i], "\r\n")) == now[k] }
	head := 0
	for head < min(len(was), len(now))-1 && same(head, head) {
		head++
	}
	tail := 0
	for tail < min(len(was), len(now))-1-head && same(len(was)-1-tail, len(now)-1-tail) {
		tail++
	}
	end := "\n"
	if crlf := bytes.Count(region, []byte("\r\n")); 2*crlf >= bytes.Count(region, []byte("\n")) {
		end = "\r\n"
	}
	var out []byte
	for k, line := range now {
		lineEnd := end
		switch {
		case k == len(now)-1:
			lineEnd = ""
		case k < head:
			lineEnd = endOf(was[k])
		case len(now)-1-k < tail:
			lineEnd = endOf(was[len(was)-len(now)+k])
		case len(was) == len(now):
			lineEnd = endOf(was[k]) // line for line: each keeps its own
		}
		out = append(append(out, line...), lineEnd...)
	}
	return out
}

func endOf(line []byte) string {
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func lineStarts(data, old []byte) []int {
	var lines []int
	for at := 0; ; {
		i := bytes.Index(data[at:], old)
		if i < 0 {
			return lines
		}
		lines = append(lines, 1+bytes.Count(data[:at+i], []byte("\n")))
		at += i + len(old)
	}
}

func manyMatches(data []byte, lines []int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "old occurs %d times, it must occur once (or set replace_all). It begins at these lines:\n", len(lines))
	for _, n := range lines[:min(len(lines), 10)] {
		b.WriteString(context3(data, n, n))
	}
	return errors.New(strings.TrimRight(b.String(), "\n"))
}

// noMatch says that old does not occur, and shows the places that look most like its first line.
func noMatch(data []byte, old string) error {
	var b strings.Builder
	b.WriteString("old does not occur in the file (0 matches)")
	near := nearest(data, old)
	if len(near) == 0 {
		b.WriteString("; nothing in it looks like it. Read the file again.")
		return errors.New(b.String())
	}
	b.WriteString(". The nearest lines are:\n")
	for _, n := range near {
		b.WriteString(context3(data, n-1, n+1))
		b.WriteString("--\n")
	}
	return errors.New(strings.TrimSuffix(b.String(), "\n--\n"))
}

// context3 shows lines from to to with their numbers.
func context3(data []byte, from, to int) string {
	lines := bytes.Split(data, []byte("\n"))
	var b strings.Builder
	for n := max(1, from); n <= min(to, len(lines)); n++ {
		fmt.Fprintf(&b, "%6d\t%s\n", n, cutLine(contract.CleanText(strings.TrimSuffix(string(lines[n-1]), "\r")), 300))
	}
	return b.String()
}

// maxNearLines bounds the lines that are compared.
const maxNearLines = 20_000

// nearest gives up to three line numbers whose text is most like the first line of old with text.
func nearest(data []byte, old string) []int {
	want := ""
	for l := range strings.SplitSeq(old, "\n") {
		if want = squeeze(l); want != "" {
			break
		}
	}
	if want == "" {
		return nil
	}
	type scored struct{ line, score int }
	var best []scored
	grams := bigrams(want)
	for i, l := range bytes.SplitN(data, []byte("\n"), maxNearLines) {
		if len(l) > lineBytes {
			continue
		}
		if s := likeness(grams, squeeze(string(l))); s >= 50 {
			best = append(best, scored{i + 1, s})
		}
	}
	slices.SortStableFunc(best, func(a, b scored) int { return b.score - a.score })
	var lines []int
	for _, s := range best[:min(3, len(best))] {
		lines = append(lines, s.line)
	}
	slices.Sort(lines)
	return lines
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func bigrams(s string) map[string]int {
	m := map[string]int{}
	for i := 0; i+2 <= len(s); i++ {
		m[s[i:i+2]]++
	}
	return m
}

// likeness is the share of pairs of bytes that both have, in per cent.
func likeness(want map[string]int, s string) int {
	have := bigrams(s)
	total, common := 0, 0
	for g, n := range have {
		total += n
		common += min(n, want[g])
	}
	for _, n := range want {
		total += n
	}
	if total == 0 {
		return 0
	}
	return 200 * common / total
}
