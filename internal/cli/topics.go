package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/config"
)

// addHelpTopics adds the pages of `rivumi help TOPIC`.
func addHelpTopics(root *cobra.Command, f *Factory) {
	for _, t := range topics() {
		topic := &cobra.Command{Use: t.name, Short: t.short, Long: t.text()}
		topic.SetHelpFunc(func(*cobra.Command, []string) { fmt.Fprintln(f.IO.Out, strings.TrimRight(t.text(), "\n")) })
		root.AddCommand(topic)
	}
}

type topic struct {
	name, short string
	text        func() string
}

func page(s string) func() string { return func() string { return s } }

func topics() []topic {
	return []topic{
		{"exit-codes", "What the exit codes mean", page(exitCodesText)},
		{"environment", "Variables and files that are looked at", environmentText},
		{"events", "The event log and machine-readable output", page(eventsText)},
		{"contract", "Task files and the rules for them", page(contractText)},
		{"sandbox", "What holds the agent's commands", page(sandboxText)},
		{"approvals", "When a run asks and how to answer", page(approvalsText)},
	}
}

const exitCodesText = `Exit codes. The code of a run comes from its end state only.

    0  completed, and every check passed or none was asked
    1  the run failed: model, tool or an internal error
    2  usage, settings or contract invalid; nothing was started
    3  a patch is there but a check failed
    4  credentials missing or refused
    5  an approval was needed and denied, or nobody could answer
    6  a limit was reached; the reason names it
    7  sandbox unavailable, or weaker than asked
    8  server unreachable, or stream lost for good
    9  apply conflict, nothing was changed
   10  changes outside the allowed paths
  130  interrupted (SIGINT) or cancelled
  143  terminated (SIGTERM)

Every non-zero exit prints "rivumi: error: ..." or the end of the run on stderr. With --json or
-o stream-json the last line of stdout is a record that holds the exit code as exitCode.`

const eventsText = `Every run has a log of events. An event is one line of JSON:

  {"v":1,"seq":17,"runId":"run_...","attempt":1,"time":"...","type":"tool.result","step":3,"prev":"...","data":{...}}

seq starts at 1 and has no gap; prev is the start of the SHA-256 of the line before, so that a
reader can prove that the log is whole. The last event of a run is run.completed, run.failed or
run.cancelled; its data holds exitCode, result and error.

  rivumi run -o stream-json ...   events as they happen, one a line, on stdout
  rivumi run --json ...           the run as one JSON object at the end
  rivumi logs RUN --json [-f]     the stored lines
  rivumi logs RUN --type TYPE     only some of them
  --jq EXPR                       filters any of these

Text in events is valid UTF-8 without control characters, and known secrets are replaced.`

const contractText = `A task file (rivumi run -F task.yaml) says what is asked. YAML and JSON hold the same fields;
unknown and repeated keys are refused, all refusals come at once, and nothing starts.

  instruction: fix the failing test
  model: openai/gpt-5
  allowedPaths: [src/**, README.md]      # what may change; leave out for everything
  checks:                                # argv, run without a shell on base + patch
    - [go, test, ./...]
  limits: {maxSteps: 40, wallTimeSeconds: 1200}
  approval: {policy: ask, timeoutSeconds: 300, unattended: deny}
  sandbox: {mode: auto, minTier: L1}
  network: none
  repository: {path: ., base: HEAD, dirty: include, include: [.env]}

A flag beats the file, the file beats settings. The prompt of the command line becomes the
instruction of a file without one. -F task.md takes the whole file as the instruction.
rivumi run --dry-run prints the contract that would run. Ignored files named in .worktreeinclude
at the root of the repository are copied into the worktree and never become part of the patch.`

const sandboxText = `The agent works in a disposable worktree. Its commands are held by the strongest tier this machine
has; the first line of a run, rivumi show and the bundle name the tier that was in force.

  L3      namespaces, an own root, Landlock and a system call filter
  L2      bubblewrap
  L1      Landlock and a system call filter
  L0      plain processes: an own process group and a built environment, no containment
  docker  a container without network

  -s auto              the strongest tier there is (default)
  -s read-only         commands cannot write the tree
  -s workspace-write   commands can write the tree and nothing else
  -s docker            in a container of the image named by --image
  -s none              plain processes; said everywhere

minTier in the contract (or min_tier in settings) refuses weaker ones with exit code 7. Commands
have no network unless --net allow=HOST,... and see only the variables named by --env.
rivumi doctor says which tiers this machine has and what is missing.`

const approvalsText = `A policy says which tool calls of the agent ask first (--approve):

  never      whatever is not read-only is denied
  read-only  read-only commands run, the rest is denied
  ask        read-only commands run, the rest asks (default)
  edits      file tools inside the allowed paths are free, the rest asks
  all        nothing asks; deny rules still hold

Rules: --allow 'shell(git status:*)', --allow 'edit(src/**)', --deny 'shell(git push:*)'. Deny beats
allow. At the terminal a run shows exactly what would run and takes one key:

  a  allow once          s  allow what the shown scope covers, in this run
  d  deny                x  cancel the run
  e  say why it asks     v  show the whole command or diff

From another terminal: rivumi approve RUN lists what waits, rivumi approve RUN ID --allow-once
answers. Without anybody at a terminal a call that would ask is denied at once and the model is
told; --on-no-answer stop ends the run instead, --on-no-answer wait waits for rivumi approve.`

func environmentText() string {
	var b strings.Builder
	b.WriteString(`Keys of providers: OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY, GROQ_API_KEY,
GEMINI_API_KEY. They are read by rivumi only; commands of the agent never see them.

  RIVUMI_STATE_DIR   where runs are kept (default $XDG_STATE_HOME/rivumi, 0700)
  RIVUMI_CONFIG      your settings file (default $XDG_CONFIG_HOME/rivumi/config.toml)
  RIVUMI_PROFILE     same as --profile
  NO_COLOR, CLICOLOR_FORCE, TERM=dumb, CI   colour and plain output

Settings, each also a key of the settings files; flags beat variables, variables beat the
repository's .rivumi/config.toml, that beats your file:

`)
	for _, k := range config.Keys() {
		if k.Env() != "" {
			fmt.Fprintf(&b, "  %-26s %s\n", k.Env(), k.Doc)
		}
	}
	return b.String()
}
