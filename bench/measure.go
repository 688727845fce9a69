package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rivumi/rivumi/bench/mock"
)

type bench struct {
	dir, rivumi, floor string
	server             *mock.Server
	rounds             int
}

// sample is one whole process, measured from outside.
type sample struct {
	wall, cpu  time.Duration
	rss        int64         // bytes
	first      time.Duration // start to first model request
	end        time.Duration // last answer written to process exit
	firstBytes int
	growth     int // bytes a request grows by, on average
}

// row is one line of the table: a plan for the server, a repository size, and what is read off.
type row struct {
	name  string
	plan  mock.Plan
	files int
	args  []string // instead of a run
	read  func(sample) float64
	unit  string
	bar   float64 // most the ratio may be; 0: the value itself is bounded by most
	most  float64
	alone bool // the floor has no such thing
	check bool // with a check, which runs on a clean tree of its own
}

func (b *bench) prepare() error {
	build := exec.Command("go", "build", "-o", b.floor, "./bench/floor")
	build.Stderr = os.Stderr
	return build.Run()
}

func (b *bench) measure(r row) error {
	repo, err := b.repository(r.files)
	if err != nil {
		return err
	}
	var ours, floor []float64
	for i := range b.rounds + 1 { // the first round warms caches and is not counted
		s, err := b.once(r, repo, true)
		if err != nil {
			return fmt.Errorf("%s: rivumi: %w", r.name, err)
		}
		f := sample{}
		if !r.alone {
			if f, err = b.once(r, repo, false); err != nil {
				return fmt.Errorf("%s: floor: %w", r.name, err)
			}
		}
		if i > 0 {
			ours, floor = append(ours, r.read(s)), append(floor, r.read(f))
		}
	}
	o, f := median(ours), median(floor)
	ratio, bar, missed := "", "", false
	if !r.alone {
		ratio = fmt.Sprintf("%.2f", o/f)
	}
	switch {
	case r.bar > 0:
		bar, missed = fmt.Sprintf("≤ %.1fx", r.bar), o/f > r.bar
	case r.most > 0:
		bar, missed = fmt.Sprintf("≤ %g", r.most), o > r.most
	}
	if missed {
		bar += " MISSED"
	}
	fmt.Printf("%-46s %12.1f %12.1f %8s %8s\n", r.name+", "+r.unit, f, o, ratio, bar)
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func (b *bench) once(r row, repo string, ours bool) (sample, error) {
	b.server.Reset(r.plan)
	state, err := os.MkdirTemp(b.dir, "state-")
	if err != nil {
		return sample{}, err
	}
	if r.files > 1000 {
		// A base tree that is already there is part of what is measured: keep one state for the repository.
		state = filepath.Join(b.dir, fmt.Sprint("state-", r.files))
		if err := os.MkdirAll(state, 0o700); err != nil {
			return sample{}, err
		}
	} else {
		defer os.RemoveAll(state)
	}
	cmd := exec.Command(b.floor, b.server.URL)
	switch {
	case r.args != nil && ours:
		cmd = exec.Command(b.rivumi, r.args...)
	case r.args != nil:
		cmd = exec.Command(b.floor, "--version")
	case ours:
		cmd = exec.Command(b.rivumi, "run", "work", "-m", "openai/mock", "--provider-url", b.server.URL, "--approve", "all", "--max-steps", "500", "-p")
		if r.check {
			cmd.Args = append(cmd.Args, "--check", "true")
		}
	}
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state, "OPENAI_API_KEY=bench-key-0123456789", "CI=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err = cmd.Run()
	stop := time.Now()
	if err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return b.read(cmd.ProcessState, start, stop), nil
}

func (b *bench) read(p *os.ProcessState, start, stop time.Time) sample {
	s := sample{wall: stop.Sub(start), cpu: p.UserTime() + p.SystemTime()}
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		s.rss = u.Maxrss << 10
	}
	requests, last := b.server.Requests()
	if n := len(requests); n > 0 {
		s.first, s.firstBytes, s.end = requests[0].At.Sub(start), requests[0].Bytes, stop.Sub(last)
		if n > 1 {
			s.growth = (requests[n-1].Bytes - requests[0].Bytes) / (n - 1)
		}
	}
	return s
}

// repository makes a repository of n files once; 0 is a toy of three.
func (b *bench) repository(n int) (string, error) {
	n = max(n, 3)
	dir := filepath.Join(b.dir, fmt.Sprint("repo-", n))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("d%d", i/1000), fmt.Sprintf("e%d", i/100%10), fmt.Sprintf("f%d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(name, fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "base"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return dir, nil
}
