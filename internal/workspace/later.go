package workspace

import (
	"path"
	"strings"
)

// RunsLater reports whether a file is one that other programs run, or take commands from, once it
// is in a checkout: git's own settings, CI, editors, shells, package scripts, build files. Applying
// a change to one is not refused, but named.
func RunsLater(p string) bool {
	p = strings.ToLower(p)
	base := path.Base(p)
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		switch dir {
		case ".github", ".gitlab", ".circleci", ".vscode", ".idea", ".husky", ".devcontainer", ".cargo", ".githooks", ".claude", ".cursor", ".buildkite":
			return true
		}
	}
	switch base {
	case ".gitattributes", ".gitmodules", ".gitconfig", ".gitignore", ".gitlab-ci.yml", ".envrc", ".env", ".npmrc", ".yarnrc", ".yarnrc.yml",
		".pre-commit-config.yaml", ".travis.yml", ".mcp.json", ".bashrc", ".profile", ".zshrc", ".direnv", "package.json", "makefile", "gnumakefile",
		"justfile", "taskfile.yml", "rakefile", "dockerfile", "docker-compose.yml", "compose.yaml", "jenkinsfile", "azure-pipelines.yml",
		"setup.py", "conftest.py", "build.rs", "build.gradle", "build.gradle.kts", "settings.gradle", "pom.xml", "cmakelists.txt", "configure",
		"vagrantfile", "procfile", "tox.ini", "noxfile.py", "binding.gyp", "agents.md", "claude.md":
		return true
	}
	return strings.HasSuffix(base, ".mk") || strings.HasSuffix(base, ".code-workspace") || strings.HasPrefix(base, "dockerfile.")
}
