package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

type loginOptions struct {
	*Factory
	URL, Name, CA string
	TokenFile     string
	JSON          bool
	JQ            string
}

func newLoginCmd(f *Factory, do func(context.Context, *loginOptions) error) *cobra.Command {
	o := &loginOptions{Factory: f}
	if do == nil {
		do = runLogin
	}
	cmd := &cobra.Command{
		Use: "login URL", Short: "Use a control plane: keep its address and a token", Args: args(1, 1),
		Example: "  rivumi login https://rivumi.example.com\n  rivumi login http://127.0.0.1:8443 --token-file token",
		Long: "The token is asked for, or read from stdin or a file; it never stands on a command line. It is kept in\n" +
			"the keyring where there is one, else in a file that only you can read.",
		RunE: func(c *cobra.Command, a []string) error {
			o.URL = strings.TrimSuffix(a[0], "/")
			return do(c.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", defaultRemote, "call it `NAME`, for --remote=NAME")
	cmd.Flags().StringVar(&o.CA, "ca", "", "trust the certificates in `FILE` too")
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "read the token from `FILE`")
	return cmd
}

var remoteName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func runLogin(ctx context.Context, o *loginOptions) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if !remoteName.MatchString(o.Name) {
		return usagef("a name has letters, digits and -", "--name %q cannot be used", o.Name)
	}
	if err := checkRemoteURL(o.URL); err != nil {
		return err
	}
	token, err := o.readToken()
	if err != nil {
		return err
	}
	p := remotePlace{Name: o.Name, URL: o.URL, CA: o.CA}
	c, err := o.openRemote(p, token)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := probe(ctx, c); err != nil {
		return err
	}
	file := o.UserConfigFile()
	if err := config.WriteUser(file, "remotes."+o.Name+".url", o.URL); err != nil {
		return err
	}
	if o.CA != "" {
		if err := config.WriteUser(file, "remotes."+o.Name+".ca", o.CA); err != nil {
			return err
		}
	}
	where, err := o.storeToken(o.URL, token)
	if err != nil {
		return err
	}
	o.IO.Note("%s is taken by %s; it is kept in %s", "the token", o.URL, where)
	o.IO.Next(`rivumi run --remote "what to do"`, "rivumi ps --remote")
	return nil
}

// readToken reads the token without showing it.
func (o *loginOptions) readToken() (string, error) {
	var raw []byte
	var err error
	switch {
	case o.TokenFile != "":
		var f *os.File
		if f, err = os.Open(o.TokenFile); err == nil {
			raw, err = io.ReadAll(io.LimitReader(f, maxToken))
			f.Close()
		}
	case o.IO.InTTY:
		fmt.Fprintf(o.IO.Err, "rivumi: token of %s: ", o.URL)
		raw, err = term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(o.IO.Err)
	default:
		raw, err = io.ReadAll(io.LimitReader(o.IO.In, maxToken))
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsAny(token, " \t\n") || !contract.IsClean(token) {
		return "", usagef("the operator of the control plane gives one", "that is no token")
	}
	return token, nil
}

func newLogoutCmd(f *Factory) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "logout", Short: "Forget a control plane's token", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			c, err := f.Config()
			if err != nil {
				return err
			}
			p, err := f.remoteNamed(c, name)
			if err != nil {
				return err
			}
			if err := f.forgetToken(p.URL); err != nil {
				return err
			}
			f.IO.Note("the token of %s is forgotten here; the control plane's operator can revoke it", p.URL)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the one called `NAME`")
	return cmd
}

// authState is one line of `auth status`.
type authState struct {
	remotePlace
	Token string `json:"token"` // missing, refused, ok, unknown
	Error string `json:"error,omitempty"`
}

func newAuthCmd(f *Factory) *cobra.Command {
	o := &loginOptions{Factory: f}
	status := &cobra.Command{
		Use: "status", Short: "Say which control planes are known and whether they take the token", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return authStatus(c.Context(), o) },
	}
	addOutputFlags(status.Flags(), &o.JSON, &o.JQ)
	cmd := &cobra.Command{
		Use: "auth", Short: "Look at logins", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return authStatus(c.Context(), o) },
	}
	cmd.AddCommand(status)
	return cmd
}

func authStatus(ctx context.Context, o *loginOptions) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	c, err := o.Config()
	if err != nil {
		return err
	}
	states := []authState{}
	for _, p := range remotePlaces(c) {
		states = append(states, o.authOf(ctx, p))
	}
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, map[string]any{"remotes": states}, o.JQ)
	}
	for _, s := range states {
		fmt.Fprintf(o.IO.Out, "%s  %s  token %s %s\n", s.Name, s.URL, s.Token, s.Error)
	}
	if len(states) == 0 {
		o.IO.Note("no control plane is known")
		o.IO.Next("rivumi login https://HOST")
	}
	return nil
}

func (o *loginOptions) authOf(ctx context.Context, p remotePlace) authState {
	s := authState{remotePlace: p, Token: "missing"}
	if o.remoteToken(p) == "" {
		return s
	}
	c, err := o.openRemote(p, "")
	if err == nil {
		defer c.Close()
		err = probe(ctx, c)
	}
	switch contract.KindOf(err) {
	case "":
		s.Token = "ok"
	case contract.KindUnauthorized, contract.KindForbidden:
		s.Token = "refused"
	default:
		s.Token, s.Error = "unknown", oneLine(err.Error())
	}
	return s
}
