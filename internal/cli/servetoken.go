package cli

import (
	"crypto/rand"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host/access"
)

func newServeTokenCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke API tokens", Args: args(0, 0)}
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	cmd.AddCommand(newTokenCreateCmd(f), newTokenListCmd(f), newTokenRevokeCmd(f))
	return cmd
}

func (f *Factory) apiTokens() (*access.Tokens, error) {
	dir, err := f.StateDir()
	if err != nil {
		return nil, err
	}
	return access.Open(dir, f.Now, rand.Reader)
}

func newTokenCreateCmd(f *Factory) *cobra.Command {
	var n access.New
	var scope string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token and print it once", Args: args(1, 1),
		Example: "  rivumi serve token create laptop\n  rivumi serve token create ci --scope run --expires 720h",
		RunE: func(_ *cobra.Command, a []string) error {
			tokens, err := f.apiTokens()
			if err != nil {
				return err
			}
			n.Name, n.Scope = a[0], access.Scope(scope)
			secret, _, err := tokens.Create(n)
			if err == nil {
				fmt.Fprintln(f.IO.Out, secret)
			}
			return err
		},
	}
	p := cmd.Flags()
	p.StringVar(&scope, "scope", "run", "what it may do: read, run or admin")
	p.DurationVar(&n.Life, "expires", 0, "end its life after `TIME`; 0 is never")
	p.StringVar(&n.Principal, "principal", "", "share the runs of principal `NAME`; without, the token has its own")
	return cmd
}

func newTokenListCmd(f *Factory) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			tokens, err := f.apiTokens()
			if err != nil {
				return err
			}
			list, err := tokens.List()
			if err != nil {
				return err
			}
			for i := range list {
				list[i].Hash = ""
			}
			if asJSON {
				return writeJSON(f.IO.Out, list, "")
			}
			w := tabwriter.NewWriter(f.IO.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tSCOPE\tPRINCIPAL\tEXPIRES\tLAST USED")
			for _, t := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Scope, t.Principal, day(t.Expires), day(t.Used))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "machine-readable output")
	return cmd
}

func day(t *contract.Time) string {
	if t == nil {
		return "never"
	}
	return t.Format(time.DateTime)
}

func newTokenRevokeCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID|NAME", Short: "End a token at once", Args: args(1, 1),
		RunE: func(_ *cobra.Command, a []string) error {
			tokens, err := f.apiTokens()
			if err != nil {
				return err
			}
			n, err := tokens.Revoke(a[0])
			if err == nil && n == 0 {
				err = usagef("rivumi serve token list", "there is no token %q", a[0])
			}
			if err == nil {
				f.IO.Note("%d revoked", n)
			}
			return err
		},
	}
}
