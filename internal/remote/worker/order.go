package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/openai"
	"github.com/rivumi/rivumi/internal/model/wire"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/token"
)

// MaxOrderBytes bounds an [Order] on the wire.
const MaxOrderBytes = 16 << 20

// Order is all that a box is told, as one line of JSON on its standard input. It is the only place
// where its tokens stand.
type Order struct {
	Run    contract.Run              `json:"run"`
	Task   contract.Task             `json:"task"`
	Tokens map[token.Audience]string `json:"tokens"`
	Model  Model                     `json:"model"`
	Tier   sandbox.Tier              `json:"tier"` // of the box itself
}

// Model is what a box knows of its model: no address and no key.
type Model struct {
	Name      string       `json:"name"`
	Messages  bool         `json:"messages,omitempty"` // the Messages wire instead of Chat Completions
	Context   int64        `json:"context,omitempty"`
	MaxTokens int          `json:"maxTokens,omitempty"`
	Price     *model.Price `json:"price,omitempty"`
}

// Encode gives the line.
func (o Order) Encode() []byte { return append(contract.MarshalJSON(o), '\n') }

// ReadOrder reads the one line and nothing behind it.
func ReadOrder(r io.Reader) (Order, error) {
	var o Order
	b, err := io.ReadAll(io.LimitReader(r, MaxOrderBytes+1))
	if err != nil {
		return o, contract.Errorf(contract.KindInvalid, "read the order: %w", err)
	}
	if len(b) > MaxOrderBytes {
		return o, contract.Errorf(contract.KindTooLarge, "the order is longer than %d bytes", MaxOrderBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err = dec.Decode(&o)
	clear(b)
	if err == nil && dec.More() {
		err = contract.Errorf(contract.KindInvalid, "something follows it")
	}
	if err != nil {
		return Order{}, contract.Errorf(contract.KindInvalid, "read the order: %w", err)
	}
	if err := o.check(); err != nil {
		return Order{}, err
	}
	return o, nil
}

func (o Order) check() error {
	switch {
	case !o.Run.ID.WellFormed() || o.Run.Attempt < 1:
		return contract.Errorf(contract.KindInvalid, "the order names no run")
	case o.Task.Limits.WallTimeSeconds < 1:
		return contract.Errorf(contract.KindInvalid, "the order's task has no wall time")
	}
	for _, a := range token.Audiences() {
		if o.Tokens[a] == "" {
			return contract.Errorf(contract.KindInvalid, "the order has no token for %s", a)
		}
	}
	return nil
}

// Dial opens a connection of the box's channel.
type Dial func(ctx context.Context) (net.Conn, error)

// internalBase is where the model routes are; the host name stands for the channel.
const internalBase = "http://localhost/internal/v1"

// Open gives the model behind the proxy route. While the control plane is away a request waits for
// the channel, as long as its context lives.
func (m Model) Open(tok string, dial Dial) (model.Model, error) {
	o := wire.Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return patiently(ctx, dial) }}
	if m.Messages {
		return anthropic.New(anthropic.Options{BaseURL: internalBase, Key: tok, Bearer: true, MaxTokens: m.MaxTokens, Wire: o})
	}
	return openai.New(openai.Options{BaseURL: internalBase, Key: tok, TokenField: "max_tokens", Wire: o})
}

// patiently dials until it works or ctx ends.
func patiently(ctx context.Context, dial Dial) (net.Conn, error) {
	for n := 0; ; n++ {
		c, err := dial(ctx)
		if err == nil || pause(ctx, n) != nil {
			return c, err
		}
	}
}
