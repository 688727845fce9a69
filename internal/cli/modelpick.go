package cli

import (
	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

// chooseModel makes sure that the task names a model.
func (o *runOptions) chooseModel(t *contract.Task, _ *config.Config) error {
	if t.Model != "" {
		return nil
	}
	return &failure{contract.ExitCredentials, errNoModel, "-m provider/model, a key such as OPENAI_API_KEY, or rivumi demo, which needs none"}
}
