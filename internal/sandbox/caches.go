package sandbox

import (
	"os"
	"path/filepath"
)

// Cache is a folder of the user's that holds what toolchains have downloaded or built. A contained
// session shows it so that it can be used but never changed: what commands write goes to a layer of
// the session, which nobody else sees and which ends with it.
type Cache struct {
	Path string // host folder, absolute, without links
	At   string // where it is shown: absolute, or relative to the session's HOME
	Env  string // variable of commands that must name the place; "" where programs look there anyway
	// Frozen says that the folder is of use where it can only be read. A place that mounts no layers
	// leaves the others out, and programs start with an empty one.
	Frozen bool
}

// UserCaches finds the caches of this user's toolchains: Go, npm, pip, Cargo, Maven, Gradle. Only
// folders of packages and objects are named, never their parents, where tokens are kept (.npmrc,
// .cargo/credentials.toml, .m2/settings.xml, gradle.properties).
func UserCaches(getenv func(string) string) []Cache {
	home := getenv("HOME")
	below := func(variable string, rest ...string) string {
		if v := getenv(variable); filepath.IsAbs(v) {
			return filepath.Clean(v)
		}
		if !filepath.IsAbs(home) {
			return ""
		}
		return filepath.Join(append([]string{home}, rest...)...)
	}
	general := below("XDG_CACHE_HOME", ".cache")
	cargo := below("CARGO_HOME", ".cargo")
	gopath := filepath.SplitList(below("GOPATH", "go"))
	var modules string
	if len(gopath) > 0 {
		modules = firstSet(absolute(getenv("GOMODCACHE")), join(gopath[0], "pkg/mod"))
	}
	objects := firstSet(absolute(getenv("GOCACHE")), join(general, "go-build"))
	all := []Cache{
		{Path: modules, At: modules, Env: "GOMODCACHE", Frozen: true},
		{Path: objects, At: objects, Env: "GOCACHE"},
		{Path: join(below("npm_config_cache", ".npm"), "_cacache"), At: ".npm/_cacache"},
		{Path: firstSet(absolute(getenv("PIP_CACHE_DIR")), join(general, "pip")), At: ".cache/pip", Frozen: true},
		{Path: join(cargo, "registry"), At: ".cargo/registry", Frozen: true},
		{Path: join(cargo, "git"), At: ".cargo/git", Frozen: true},
		{Path: join(below("", ".m2"), "repository"), At: ".m2/repository", Frozen: true},
		{Path: join(below("GRADLE_USER_HOME", ".gradle"), "caches"), At: ".gradle/caches"},
		{Path: join(below("GRADLE_USER_HOME", ".gradle"), "wrapper/dists"), At: ".gradle/wrapper/dists", Frozen: true},
	}
	found := []Cache{}
	for _, c := range all {
		if c.Path == "" || c.Path == home || c.Path == "/" {
			continue
		}
		real, err := filepath.EvalSymlinks(c.Path)
		if err != nil {
			continue // this user does not use it
		}
		if st, err := os.Stat(real); err == nil && st.IsDir() {
			c.Path = real
			found = append(found, c)
		}
	}
	return found
}

func absolute(p string) string {
	if !filepath.IsAbs(p) {
		return ""
	}
	return filepath.Clean(p)
}

func join(dir, rest string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, rest)
}

func firstSet(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
