package main

import (
	"context"
	"os"
	"runtime/pprof"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

func main() {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	if p := os.Getenv("CPUPROF"); p != "" {
		f, _ := os.Create(p)
		_ = pprof.StartCPUProfile(f)
	}
	code := cli.Main(context.Background(), "x")
	pprof.StopCPUProfile()
	os.Exit(code)
}
