package proc

import (
	"context"
	"fmt"
	"os"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Attach opens the session of a supervisor in a container. ctx bounds the opening only. When it
// fails the place has been ended.
func Attach(ctx context.Context, a Attachment) (sandbox.Session, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		a.Conn.Close()
		a.Kill()
		return nil, startError("open a session", err)
	}
	defer null.Close()
	q := openRequest{Tree: a.Tree, Listen: len(a.Hosts) > 0, Limits: a.Limits}
	for _, w := range a.Writes {
		q.Binds = append(q.Binds, bind{Path: w, Writable: true})
	}
	// A descriptor goes along, so that a runtime that loses them is noticed at once.
	h := holder{gone: a.Gone, kill: a.Kill, words: a.Words}
	s, r, err := begin(ctx, &link{conn: a.Conn}, h, q, a.Env, int(null.Fd()))
	if err != nil {
		return nil, err
	}
	if (len(r.fds) == 1) != q.Listen {
		closeAll(r.fds)
		return nil, s.abandon(ctx)
	}
	s.receipt = a.Receipt
	s.receipt.Network = networkName(a.Hosts)
	s.receipt.Missing = append(s.receipt.Missing, r.Missing...)
	layers := make(map[string]string, len(a.Receipt.Layers)+len(r.Layers))
	for _, m := range []map[string]string{a.Receipt.Layers, r.Layers} {
		for k, v := range m {
			if old, ok := layers[k]; ok {
				v = old + ", " + v
			}
			layers[k] = v
		}
	}
	s.receipt.Layers = layers
	if q.Listen {
		if err := s.serveProxy(ctx, r.fds[0], a.Hosts); err != nil {
			_ = s.Close(context.WithoutCancel(ctx))
			return nil, startError("serve the network proxy", fmt.Errorf("on the container's listener: %w", err))
		}
	}
	return s, nil
}
