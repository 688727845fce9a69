package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// Config is what the operator set. It does not change while the core lives.
type Config struct {
	Profile  contract.Profile
	Models   []string         // names a task may ask for; the first is the default
	Checks   []contract.Check // argv a task may ask for, where the profile does not take any
	Hosts    []string         // network names a task may ask for
	Images   []string         // sandbox images a task may ask for
	GitHosts []string         // hosts a git source may name
	Secret   []byte           // at least 32 bytes; run ids are bound to it, so it outlives token rotation
	Keys     *token.Keys      // keys of run tokens; nil derives them from Secret
	Version  string           // of the program, for the first event of a log
	Prices   map[string]Price // by model name; money budgets need them
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Input  float64
	Output float64
}

// Core decides everything about runs. It holds the configuration only, no state, and is safe for
// concurrent use; what it decides about one run is atomic because each decision is one Tx.
type Core struct {
	cfg    Config
	keys   *token.Keys
	routes []route
}

// New makes a core. A secret under 32 bytes is refused.
func New(cfg Config) (*Core, error) {
	if len(cfg.Secret) < token.MinSecretBytes {
		return nil, contract.Errorf(contract.KindInvalid, "secret is %d bytes, at least %d are needed", len(cfg.Secret), token.MinSecretBytes)
	}
	cfg.Secret = slices.Clone(cfg.Secret)
	keys := cfg.Keys
	if keys == nil {
		var err error
		if keys, err = token.NewKeys(token.Secret{ID: "1", Bytes: cfg.Secret}); err != nil {
			return nil, err
		}
	}
	return &Core{cfg: cfg, keys: keys, routes: routeTable()}, nil
}

// Profile is the profile in force.
func (c *Core) Profile() contract.Profile { return c.cfg.Profile }

// RunIDFor gives the id under which Create will store: random without an idempotency key,
// and with one the same for the same principal and key, so that a repeated start finds the
// records of the first. The host opens the records of this id, then calls Create with the same env.
func (c *Core) RunIDFor(env Env, principal, idempotencyKey string) contract.RunID {
	if idempotencyKey == "" {
		return contract.NewRunID(c.cfg.Secret, env.Entropy[:])
	}
	m := hmac.New(sha256.New, c.cfg.Secret)
	m.Write([]byte("rivumi/idempotency/v1\x00" + principal + "\x00" + idempotencyKey))
	return contract.NewRunID(c.cfg.Secret, m.Sum(nil))
}

// Genuine reports whether the id was made by a core with this secret.
func (c *Core) Genuine(id contract.RunID) bool { return id.Genuine(c.cfg.Secret) }
