package proc_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// needs skips a test of a program that this machine does not have.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if program == "cargo" || program == "java" || os.Getuid() != 0 { // not installed by .ci/run
			t.Skip(program + " is not installed")
		}
		missing(t, program+" is not installed")
	}
}

// missing skips a test of the sandbox, but fails it where everything has to be there.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("RIVUMI_CI") != "" {
		t.Fatal(why + ", and RIVUMI_CI does not let a sandbox test skip")
	}
	t.Skip(why)
}

func TestFullToolchainsWork(t *testing.T) {
	for _, c := range []struct{ program, script string }{
		{"go", `set -e; mkdir g; cd g; printf 'module example.test/tiny\n\ngo 1.21\n' > go.mod
printf 'package tiny\n\nfunc Two() int { return 2 }\n' > t.go
printf 'package tiny\n\nimport "testing"\n\nfunc TestTwo(t *testing.T) { if Two() != 2 { t.Fatal() } }\n' > t_test.go
go build ./... && go test -vet=off ./...`},
		{"node", `node -e 'const {fork} = require("child_process"); if (process.send) process.send(1); else { require("fs").writeFileSync("f.js", "process.send(2)"); fork("./f.js").on("message", m => console.log(m)) }' | grep 2`},
		{"npm", `npm --version && npm init -y >/dev/null && npm pkg set scripts.test="node -e 0" && npm test`},
		{"python3", `python3 -c 'import ssl, json, sqlite3, multiprocessing as m, tempfile; tempfile.mkdtemp(); p = m.Process(target=print, args=("child",)); p.start(); p.join(); print(p.exitcode)' | grep 0`},
		{"git", `git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f && git add -A && git commit -qm m && git log --oneline | grep m && git worktree add -q ../w2 && git -C ../w2 status`},
		{"make", `printf 'all:\n\t@echo made\n' > Makefile && make -j4 | grep made`},
		{"gcc", `printf 'int main(void){return 0;}\n' > m.c && gcc -o m m.c && ./m`},
		{"cargo", `cargo init -q --name tiny c && cd c && cargo build -q --offline && cargo test -q --offline`},
		{"java", `printf 'class A { public static void main(String[] a) { System.out.println("java " + a.length); } }' > A.java && java A.java | grep 'java 0'`},
		{"perl", `perl -MPOSIX -e 'print "p\n"'`},
		{"bash", `bash -c 'set -o pipefail; echo a > >(cat) ; cat <(echo b) | grep b'`},
	} {
		t.Run(c.program, func(t *testing.T) {
			needs(t, c.program)
			s := openFull(t, sandbox.Spec{})
			if code, out := script(t, s, c.script); code != 0 {
				t.Errorf("exit %d\n%s", code, out)
			}
		})
	}
}
