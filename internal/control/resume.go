package control

import "github.com/rivumi/rivumi/internal/contract"

// Origin is an ended run that another one goes on from.
type Origin struct {
	Run       contract.Run
	Task      contract.Task
	Principal string
}

// Resumable gives what Resume needs of an ended run; one that has not ended is KindRunNotFinished.
func (c *Core) Resumable(tx Tx) (Origin, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return Origin{}, err
	}
	if !en.h.Status.Terminal() {
		return Origin{}, contract.Errorf(contract.KindRunNotFinished, "run is %s", en.h.Status)
	}
	b, err := en.base()
	if err != nil {
		return Origin{}, err
	}
	run, err := en.compose(b)
	if err != nil {
		return Origin{}, err
	}
	task, err := c.Task(tx)
	return Origin{Run: run, Task: task, Principal: b.Principal}, err
}

// Resume stores a new queued run that goes on from an ended one, under the id of RunIDFor(env,
// from.Principal, ""). A terminal state absorbs, so the old run and its log stay as they are; the
// new one has the same task, begins its attempts where the old one stopped, and names the old one
// in its second event (contract.RunResumed). Who rebuilds the history reads the old log first. A
// prompt becomes a message for the first step; "" only goes on.
func (c *Core) Resume(tx Tx, env Env, from Origin, prompt string) (contract.Run, error) {
	if !from.Run.Status.Terminal() {
		return contract.Run{}, contract.Errorf(contract.KindRunNotFinished, "run is %s", from.Run.Status)
	}
	if err := contract.Validate(from.Task, c.cfg.Profile, c.rules()); err != nil {
		return contract.Run{}, err
	}
	if found, err := get(tx, keyBase, &base{}); err != nil {
		return contract.Run{}, err
	} else if found {
		return contract.Run{}, contract.Errorf(contract.KindConflict, "run id is taken")
	}
	en := c.begin(tx, env, c.RunIDFor(env, from.Principal, ""))
	b := en.baseOf(from.Principal, from.Task, digestOf(from.Task))
	b.From = from.Run.ID
	if _, err := en.lay(b, from.Task); err != nil {
		return contract.Run{}, err
	}
	en.h.Attempt = from.Run.Attempt
	reason := "continued"
	if from.Run.Error != nil && from.Run.Error.Code == contract.FailInterrupted {
		reason = string(contract.FailInterrupted)
	}
	resumed := contract.RunResumed{Attempt: from.Run.Attempt + 1, From: from.Run.ID, Reason: reason}
	if err := en.tell(0, resumed); err != nil {
		return contract.Run{}, err
	}
	if prompt != "" {
		if _, err := en.send(prompt); err != nil {
			return contract.Run{}, err
		}
	}
	if err := en.save(); err != nil {
		return contract.Run{}, err
	}
	return en.compose(b)
}
