package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/policy"
)

// deaf is how long keys are ignored after a card appears: what was typed before it could be read
// is no decision.
const deaf = 300 * time.Millisecond

var errNoKeys = errors.New("the terminal gives no keys")

// askKey shows an approval and takes one key for it. There is no default: Enter and Space do
// nothing. It ends with an error when ctx does.
func askKey(ctx context.Context, f *Factory, a contract.Approval, p contract.ApprovalPolicy) (contract.Decision, error) {
	keys, err := openKeys(f.IO)
	if err != nil {
		return contract.Decision{}, err
	}
	defer keys.close()
	fmt.Fprintf(f.IO.Err, "\n%s\n%s%s\n", f.IO.Bold("approval "+a.ID+"  "+expiry(f, a)), approvalText(a, false), f.IO.Bold(cardKeys(a)))
	keys.ignore(deaf)
	for {
		k, err := keys.next(ctx)
		if err != nil {
			return contract.Decision{}, err
		}
		switch {
		case k == 'e':
			fmt.Fprint(f.IO.Err, explain(a, p))
		case k == 'v':
			fmt.Fprint(f.IO.Err, approvalText(a, true))
		case k == 's' && a.SessionScope.Pattern == "":
			fmt.Fprintln(f.IO.Err, "  this one can only be allowed once")
		default:
			if v, ok := verdictKeys()[k]; ok {
				return contract.Decision{Verdict: v, By: f.who(), At: contract.At(f.Now())}, nil
			}
			continue
		}
		fmt.Fprintln(f.IO.Err, f.IO.Bold(cardKeys(a)))
		keys.ignore(0)
	}
}

func verdictKeys() map[byte]contract.Verdict {
	return map[byte]contract.Verdict{'a': contract.AllowOnce, 's': contract.AllowSession, 'd': contract.Deny, 'x': contract.CancelRun}
}

func cardKeys(a contract.Approval) string {
	session := "  [s] session"
	if a.SessionScope.Pattern == "" {
		session = ""
	}
	return "  [a] once" + session + "  [d] deny  [x] cancel run  [e] why  [v] all of it"
}

func expiry(f *Factory, a contract.Approval) string {
	left := a.ExpiresAt.Sub(f.Now()).Round(time.Second)
	if a.ExpiresAt.IsZero() || left <= 0 {
		return ""
	}
	return "expires in " + left.String()
}

// explain says part by part why a command asks.
func explain(a contract.Approval, p contract.ApprovalPolicy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  because  %s\n", oneLine(a.Reason))
	for _, w := range a.Risk.Why {
		fmt.Fprintf(&b, "           %s\n", oneLine(w))
	}
	if a.Command.Script == "" {
		return b.String()
	}
	judge, err := policy.New(policy.Config{Policy: p.Policy, Allow: p.Allow, Deny: p.Deny})
	if err != nil {
		return b.String()
	}
	for _, part := range judge.Explain(a.Command.Script, a.Command.Cwd) {
		fmt.Fprintf(&b, "  %-12s %s%s\n", oneLine(part.Class), clip(oneLine(part.Text), 100), suffix("  | ", oneLine(part.Rule)))
	}
	return b.String()
}
