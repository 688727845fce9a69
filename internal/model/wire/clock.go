package wire

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

var (
	errNoBytes    = errors.New("the provider sent nothing")
	errNoProgress = errors.New("the provider sent no part of the answer")
)

// body reads a response under the two idle clocks and the bound of one answer. The clocks run only
// while a read waits, so that a slow consumer never looks like a slow provider.
type body struct {
	from    io.Reader
	ctx     context.Context // of the request; cancel ends it
	cancel  context.CancelCauseFunc
	o       Options
	read    int64
	waited  time.Duration // in reads since the last progress
	failure error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.failure != nil {
		return 0, b.failure
	}
	limit, cause := b.o.BytesIdle, errNoBytes
	if left := b.o.ProgressIdle - b.waited; left < limit {
		limit, cause = max(left, 0), errNoProgress
	}
	begin := time.Now()
	timer := time.AfterFunc(limit, func() { b.cancel(cause) })
	n, err := b.from.Read(p)
	timer.Stop()
	b.waited += time.Since(begin)
	b.read += int64(n)
	if b.read > MaxAnswer {
		err = &model.Error{Kind: model.ErrTooBig, Message: "the answer is larger than 64 MiB"}
	}
	if err != nil {
		b.failure = err
	}
	return n, err
}

// progress tells that a part of the answer arrived.
func (b *body) progress() { b.waited = 0 }
