package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/providers"
)

// providerState is one provider in the JSON of `models`.
type providerState struct {
	Name    string   `json:"name"`
	Wire    string   `json:"wire"`
	KeyName string   `json:"keyName,omitempty"`
	Local   bool     `json:"local"`
	Usable  bool     `json:"usable"`
	Why     string   `json:"why,omitempty"`
	Models  []string `json:"models"`
}

// findProviders says which providers have a key here and which local servers answer. Only local
// servers are asked anything.
func (f *Factory) findProviders(ctx context.Context) []providerState {
	var out []providerState
	for _, s := range providers.List(ctx, providers.Settings{Key: f.Getenv}) {
		if s.Provider.Name == providers.Compatible {
			continue
		}
		p := providerState{
			Name: s.Provider.Name, Wire: s.Provider.Wire, KeyName: s.Provider.KeyName, Local: s.Provider.Local,
			Usable: s.Usable, Why: s.Why, Models: s.Models,
		}
		if p.Models == nil {
			p.Models = []string{}
		}
		out = append(out, p)
	}
	return out
}

// example is a model name of the provider to put into a hint.
func (p providerState) example() string {
	if len(p.Models) > 0 {
		return p.Name + "/" + clean(p.Models[0])
	}
	return p.Name + "/MODEL"
}

type modelsOptions struct {
	*Factory
	JSON bool
	JQ   string
}

func newModelsCmd(f *Factory, do func(context.Context, *modelsOptions) error) *cobra.Command {
	o := &modelsOptions{Factory: f}
	if do == nil {
		do = runModels
	}
	cmd := &cobra.Command{
		Use: "models", Short: "Say which providers have a key here and which local servers answer", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

func runModels(ctx context.Context, o *modelsOptions) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	list := o.findProviders(ctx)
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, map[string]any{"providers": list}, o.JQ)
	}
	w := tabwriter.NewWriter(o.IO.Out, 2, 8, 2, ' ', 0)
	for _, p := range list {
		mark, why := "-", clean(p.Why)
		if p.Usable {
			mark, why = "ready", clip(clean(strings.Join(p.Models, " ")), 100)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, p.Name, why)
	}
	fmt.Fprintf(w, "ready\tscript\tscript:FILE plays a file, replay:FILE a recorded run\n")
	if err := w.Flush(); err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(p providerState) bool { return p.Usable }); i >= 0 {
		o.IO.Next("rivumi config set model "+list[i].example(), `rivumi run "what to do" -m `+list[i].example())
	} else {
		o.IO.Next("rivumi demo")
	}
	return nil
}

func (o *doctorOptions) checkModels() finding {
	c, err := o.Config()
	if err == nil && c.String("model") != "" {
		return finding{Name: "models", Level: "ok", Detail: c.String("model") + " is chosen"}
	}
	for _, p := range providers.All() {
		if p.KeyName != "" && o.Getenv(p.KeyName) != "" {
			return finding{"models", "warning", p.KeyName + " is set, but no model is chosen", "rivumi models lists names; rivumi config set model NAME"}
		}
	}
	return finding{"models", "warning", "no key is set and no model is chosen", "rivumi models; rivumi demo needs none"}
}

// chooseModel makes sure that the task names a model. Without one it says what is there to choose.
func (o *runOptions) chooseModel(ctx context.Context, t *contract.Task) error {
	dir, err := o.WorkDir()
	if err != nil {
		return err
	}
	t.Model, t.FallbackModel = absoluteModel(t.Model, dir), absoluteModel(t.FallbackModel, dir)
	if t.Model != "" {
		return nil
	}
	for _, p := range o.findProviders(ctx) {
		switch {
		case p.Usable && p.Local:
			return &failure{contract.ExitCredentials, errNoModel, "a server answers on this machine: -m " + p.example() + " uses it; rivumi demo needs no model at all"}
		case p.Usable:
			return usagef("-m "+p.example()+", or for good: rivumi config set model "+p.example(), "no model is chosen, though %s is set", p.KeyName)
		}
	}
	return &failure{contract.ExitCredentials, errNoModel, "set OPENAI_API_KEY or another key (rivumi models lists them), or try rivumi demo, which needs none"}
}
