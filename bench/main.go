// Command bench measures rivumi beside the floor program against one scripted model server without
// think time, and prints both and their ratio from one run. Absolute numbers belong to the machine;
// ratios carry over. The bars are those of docs/performance.md.
//
//	go run ./bench [-rounds 5] [-rivumi bin/rivumi] [-large] [-only substring]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rivumi/rivumi/bench/mock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "runs of each row; the median is printed")
	binary := flag.String("rivumi", "bin/rivumi", "the program to measure")
	large := flag.Bool("large", false, "also repositories of 10 000 and 100 000 files")
	only := flag.String("only", "", "rows whose name contains this")
	flag.Parse()
	rivumi, err := filepath.Abs(*binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rivumi-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := mock.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	b := &bench{dir: dir, rivumi: rivumi, floor: filepath.Join(dir, "floor"), server: server, rounds: *rounds}
	if err := b.prepare(); err != nil {
		return err
	}
	fmt.Printf("%-46s %12s %12s %8s %8s\n", "", "floor", "rivumi", "ratio", "bar")
	var failed []error
	for _, r := range rows(*large) {
		if strings.Contains(r.name, *only) {
			failed = append(failed, b.measure(r))
		}
	}
	return errors.Join(failed...)
}
