package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"math"

	"github.com/rivumi/rivumi/internal/contract"
)

// EventSchema names the schema of a log in its first event.
const EventSchema = "rivumi-events/1"

// MaxIdempotencyKey bounds an Idempotency-Key, in bytes of visible ASCII.
const MaxIdempotencyKey = 255

// Create stores a task as a queued run with its first event, under the id of RunIDFor(env,
// principal, task.IdempotencyKey). A repeated key with the same task gives the run as it stands,
// for as long as the run is kept; with another task it is KindIdempotencyConflict. A refusal
// writes nothing.
func (c *Core) Create(tx Tx, env Env, principal string, task contract.Task) (contract.Run, error) {
	run, _, err := c.create(tx, env, principal, task)
	return run, err
}

// create is Create; fresh says whether the run is new.
func (c *Core) create(tx Tx, env Env, principal string, task contract.Task) (run contract.Run, fresh bool, err error) {
	if err := checkIdempotencyKey(task.IdempotencyKey); err != nil {
		return contract.Run{}, false, err
	}
	if math.IsNaN(task.Limits.MaxCostUSD) || math.IsInf(task.Limits.MaxCostUSD, 0) {
		return contract.Run{}, false, contract.Errorf(contract.KindInvalid, "limits.maxCostUsd is not a number")
	}
	digest := digestOf(task)
	var old base
	found, err := get(tx, keyBase, &old)
	if err != nil {
		return contract.Run{}, false, err
	}
	if found {
		run, err := c.repeated(tx, env, old, task, digest)
		return run, false, err
	}
	if err := contract.Validate(task, c.cfg.Profile, c.rules()); err != nil {
		return contract.Run{}, false, err
	}
	en := c.begin(tx, env, c.RunIDFor(env, principal, task.IdempotencyKey))
	b := en.baseOf(principal, task, digest)
	run, err = en.lay(b, task)
	return run, err == nil, err
}

// repeated answers a Create that found records under its id.
func (c *Core) repeated(tx Tx, env Env, old base, task contract.Task, digest string) (contract.Run, error) {
	if task.IdempotencyKey == "" {
		return contract.Run{}, contract.Errorf(contract.KindConflict, "run id is taken")
	}
	if subtle.ConstantTimeCompare([]byte(old.Digest), []byte(digest)) != 1 {
		return contract.Run{}, contract.Errorf(contract.KindIdempotencyConflict, "idempotency key was used for another task")
	}
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Run{}, err
	}
	return en.compose(old)
}

// begin opens the records of a run that is not there yet.
func (c *Core) begin(tx Tx, env Env, id contract.RunID) *entry {
	return &entry{
		c: c, tx: tx, env: env, now: contract.At(env.Now),
		h: head{ID: id, Status: contract.Queued},
	}
}

func (en *entry) baseOf(principal string, task contract.Task, digest string) base {
	b := base{Principal: principal, Digest: digest, Task: task}
	b.Task.Instruction, b.Task.Files = "", nil
	b.Run = contract.Run{
		ID: en.h.ID, Name: task.Name, Model: task.Model, Instruction: task.Instruction,
		CreatedAt: en.now, Limits: task.Limits, Labels: task.Labels,
	}
	if task.Repository != nil {
		b.Run.Repository = task.Repository.Path
	}
	return b
}

// lay writes the records of a new run and its first event.
func (en *entry) lay(b base, task contract.Task) (contract.Run, error) {
	shown := task
	shown.Files = shownFiles(task.Files)
	queued := contract.RunQueued{Schema: EventSchema, Version: en.c.cfg.Version, Task: shown}
	if err := en.tell(0, queued); err != nil {
		return contract.Run{}, err
	}
	if err := put(en.tx, keyBase, b); err != nil {
		return contract.Run{}, err
	}
	if err := put(en.tx, keyTask, task); err != nil {
		return contract.Run{}, err
	}
	if err := en.save(); err != nil {
		return contract.Run{}, err
	}
	return en.compose(b)
}

// maxShownFiles bounds the bytes of paths of inline files that the first event shows.
const maxShownFiles = 64 << 10

// shownFiles names the inline files for the first event, without their contents; none of them
// where the names alone are too long.
func shownFiles(files []contract.File) []contract.File {
	var out []contract.File
	total := 0
	for _, f := range files {
		total += len(f.Path)
		out = append(out, contract.File{Path: f.Path, Executable: f.Executable})
	}
	if total > maxShownFiles {
		return nil
	}
	return out
}

func (c *Core) rules() contract.Rules {
	return contract.Rules{
		Models: c.cfg.Models, Checks: c.cfg.Checks, Hosts: c.cfg.Hosts,
		GitHosts: c.cfg.GitHosts, Images: c.cfg.Images,
	}
}

func digestOf(task contract.Task) string {
	sum := sha256.Sum256(contract.MarshalJSON(task))
	return hex.EncodeToString(sum[:])
}

func checkIdempotencyKey(key string) error {
	if len(key) > MaxIdempotencyKey {
		return contract.Errorf(contract.KindInvalid, "idempotency key is longer than %d bytes", MaxIdempotencyKey)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] >= 0x7f {
			return contract.Errorf(contract.KindInvalid, "idempotency key must be visible ASCII without spaces")
		}
	}
	return nil
}
