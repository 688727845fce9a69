package runner

import (
	"path"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// checkInputs names the changed files that decide what a check does rather than what it looks at: files a
// check's argv names, build files, manifests and lock files of package managers, configuration of test
// runners and linters, CI files, and test files. It is a list of names, not a trace of what
// was read: a changed file that a check reads under another name is not in it.
func checkInputs(changes []contract.FileChange, checks []contract.Check) []string {
	if len(checks) == 0 {
		return nil
	}
	var out []string
	for _, c := range changes {
		for _, p := range []string{c.Path, c.OldPath} {
			if p != "" && (namedBy(checks, p) || steersChecks(p)) {
				out = append(out, p)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func namedBy(checks []contract.Check, p string) bool {
	for _, argv := range checks {
		for _, arg := range argv {
			if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
				arg = value
			}
			if path.Clean(arg) == p {
				return true
			}
		}
	}
	return false
}

// steering are base names of files that tell build and test tools what to do.
var steering = []string{
	"makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "gemfile", "gemfile.lock",
	"package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "deno.json", ".npmrc",
	"go.mod", "go.sum", "go.work", "cargo.toml", "cargo.lock", "build.rs", "rust-toolchain.toml",
	"pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini", "conftest.py", "requirements.txt", "poetry.lock", "uv.lock",
	"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "gradlew", "mvnw", "build.sbt", "meson.build", "cmakelists.txt",
	"composer.json", "phpunit.xml", "mix.exs", "dockerfile", ".golangci.yml", ".golangci.yaml", ".pre-commit-config.yaml",
	".gitlab-ci.yml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml",
}

func steersChecks(p string) bool {
	lower := strings.ToLower(p)
	base := path.Base(lower)
	if slices.Contains(steering, base) || strings.HasPrefix(lower, ".github/workflows/") || strings.HasPrefix(lower, ".circleci/") {
		return true
	}
	stem, ext, _ := strings.Cut(base, ".")
	if strings.HasSuffix(stem, ".config") || strings.HasPrefix(ext, "config.") || strings.HasPrefix(base, ".eslintrc") {
		return true // jest.config.js and its kind
	}
	return isTest(lower, base, stem)
}

func isTest(lower, base, stem string) bool {
	for seg := range strings.SplitSeq(path.Dir(lower), "/") {
		if slices.Contains([]string{"test", "tests", "__tests__", "testdata", "spec", "specs", "fixtures"}, seg) {
			return true
		}
	}
	return strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_spec") ||
		strings.Contains(base, ".test.") || strings.Contains(base, ".spec.")
}
