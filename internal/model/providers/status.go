package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// probeTimeout bounds the question whether a local server answers.
const probeTimeout = 300 * time.Millisecond

// Status tells whether a provider can be used now, and if not, why.
type Status struct {
	Provider Provider
	Usable   bool
	Why      string   // "" when usable
	Models   []string // of a local server that answered: what it serves; else the built-in table's
}

// List asks local servers, all at once and each at most 300 ms, and looks whether keys are there.
// Remote providers are not asked anything. The order is that of [All].
func List(ctx context.Context, s Settings) []Status {
	return list(ctx, s, All())
}

func list(ctx context.Context, s Settings, providers []Provider) []Status {
	out := make([]Status, len(providers))
	var wg sync.WaitGroup
	for i, p := range providers {
		st := &out[i]
		st.Provider = p
		switch {
		case p.Local:
			wg.Go(func() { st.probe(ctx, s) })
		case p.BaseURL == "" && s.BaseURL == "":
			st.Why = "no address of a server was given"
		case p.KeyName != "" && p.Name != Compatible && (s.Key == nil || s.Key(p.KeyName) == ""):
			st.Why = p.KeyName + " is not set"
		default:
			st.Usable, st.Models = true, model.KnownModels(p.Name)
		}
	}
	wg.Wait()
	return out
}

func (st *Status) probe(ctx context.Context, s Settings) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	models, err := localModels(ctx, st.Provider.BaseURL, s.HTTP)
	if err != nil {
		st.Why = "no server answers at " + st.Provider.BaseURL
		return
	}
	st.Models = models
	st.Usable = len(models) > 0
	if !st.Usable {
		st.Why = "the server at " + st.Provider.BaseURL + " has no model"
	}
}

func localModels(ctx context.Context, base string, o wire.Options) ([]string, error) {
	address, err := wire.Endpoint(base, "models")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("asking local server: %w", err)
	}
	transport := &http.Transport{DialContext: o.Dial, DisableKeepAlives: true}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking local server: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("asking local server: %w", err)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(data, &list) != nil {
		return nil, fmt.Errorf("asking local server: it is not a model server (status %d)", resp.StatusCode)
	}
	var out []string
	for _, m := range list.Data {
		if m.ID != "" && len(out) < 200 {
			out = append(out, wire.Excerpt(m.ID, 200))
		}
	}
	return out, nil
}
