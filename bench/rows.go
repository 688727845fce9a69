package main

import (
	"fmt"
	"time"

	"github.com/rivumi/rivumi/bench/mock"
)

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func wall(s sample) float64  { return ms(s.wall) }
func cpu(s sample) float64   { return ms(s.cpu) }
func rss(s sample) float64   { return float64(s.rss) / (1 << 20) }
func first(s sample) float64 { return ms(s.first) }
func end(s sample) float64   { return ms(s.end) }

// rows is the table of docs/performance.md with its bars.
func rows(large bool) []row {
	steps := func(n int) mock.Plan { return mock.Plan{Steps: n, Command: "echo step %d", Tokens: 5} }
	noisy := mock.Plan{Steps: 2, Command: "head -c 10000000 /dev/zero | tr '\\0' x; : %d", Tokens: 5}
	all := []row{
		{name: "--version", args: []string{"--version"}, read: wall, unit: "ms", bar: 1.5},
		{name: "start to first model request", plan: steps(1), read: first, unit: "ms", bar: 4},
		{name: "1 step, wall", plan: steps(1), read: wall, unit: "ms", bar: 3},
		{name: "20 steps, wall", plan: steps(20), read: wall, unit: "ms", bar: 2.5},
		{name: "20 steps, CPU", plan: steps(20), read: cpu, unit: "ms", bar: 3},
		{name: "20 steps, peak RSS", plan: steps(20), read: rss, unit: "MB", most: 45},
		{name: "100 steps, wall", plan: steps(100), read: wall, unit: "ms", bar: 2},
		{name: "100 steps, CPU", plan: steps(100), read: cpu, unit: "ms", bar: 2},
		{name: "100 steps, peak RSS", plan: steps(100), read: rss, unit: "MB", most: 60},
		{name: "tool printing 10 MB, wall", plan: noisy, read: wall, unit: "ms", bar: 3},
		{name: "tool printing 10 MB, peak RSS", plan: noisy, read: rss, unit: "MB", most: 45},
		{name: "5 000 streamed tokens, wall", plan: mock.Plan{Steps: 1, Tokens: 5000}, read: wall, unit: "ms", bar: 2},
		{name: "first request", plan: steps(1), read: func(s sample) float64 { return float64(s.firstBytes) / 1024 }, unit: "KB", most: 8},
		{name: "growth of a request by a step", plan: steps(20), read: func(s sample) float64 { return float64(s.growth) }, unit: "bytes", most: 600},
	}
	sizes := []int{100}
	if large {
		sizes = append(sizes, 10_000, 100_000)
	}
	for _, n := range sizes {
		name := fmt.Sprintf("%d files: ", n)
		all = append(all,
			row{name: name + "start to first request", plan: steps(2), files: n, read: first, unit: "ms", most: 200, alone: true},
			row{name: name + "last answer to exit", plan: steps(2), files: n, read: end, unit: "ms", most: 200, alone: true},
			row{name: name + "last answer to exit with a check", plan: steps(2), files: n, check: true, read: end, unit: "ms", most: 400, alone: true})
	}
	return all
}
