package tui

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// deliverTime bounds how long a decision or message that was given may take, also when the person
// leaves right after it.
const deliverTime = 15 * time.Second

// work counts the commands that are under way, so that none is left behind: the library does not
// wait for its commands, and a result must not be half applied when the program ends.
type work struct {
	mu     sync.Mutex
	closed bool
	count  sync.WaitGroup
}

// do makes a command of a function that is waited for. After close it is not begun.
func (w *work) do(fn func() tea.Msg) tea.Cmd {
	return func() tea.Msg {
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			return nil
		}
		w.count.Add(1)
		w.mu.Unlock()
		defer w.count.Done()
		return fn()
	}
}

// close lets nothing begin any more and waits for what is under way.
func (w *work) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.count.Wait()
}

// reads is a command that only looks: leaving ends it.
func (m *model) reads(fn func(ctx context.Context) tea.Msg) tea.Cmd {
	return m.work.do(func() tea.Msg { return fn(m.ctx) })
}

// delivers is a command that hands something over: it is given its time even when the person leaves.
func (m *model) delivers(fn func(ctx context.Context) tea.Msg) tea.Cmd {
	return m.work.do(func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), deliverTime)
		defer cancel()
		return fn(ctx)
	})
}

// finishes is a command that changes files or starts something: it is never broken off.
func (m *model) finishes(fn func(ctx context.Context) tea.Msg) tea.Cmd {
	return m.work.do(func() tea.Msg { return fn(context.WithoutCancel(m.ctx)) })
}
