package workspace

import (
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

// Suspect is a file that looks like it holds a credential.
type Suspect struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// suspectBytes is how much of a file is looked at.
const suspectBytes = 1 << 20

// keyShapes are the shapes of well-known credentials. Each has a fixed start, so that ordinary code
// is not taken for one.
var keyShapes = []struct {
	what  string
	shape *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----`)},
	{"an AWS access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a GitHub token", regexp.MustCompile(`\b(?:gh[pousr]_[0-9A-Za-z]{36,}|github_pat_[0-9A-Za-z_]{60,})\b`)},
	{"a GitLab token", regexp.MustCompile(`\bglpat-[0-9A-Za-z_-]{20,}`)},
	{"a model provider's key", regexp.MustCompile(`\bsk-(?:ant-|proj-|or-)?[0-9A-Za-z_-]{24,}`)},
	{"a Google API key", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`)},
	{"a Slack token", regexp.MustCompile(`\bxox[abprs]-[0-9A-Za-z-]{20,}`)},
	{"an npm token", regexp.MustCompile(`\bnpm_[0-9A-Za-z]{36}\b`)},
}

// suspicious says why a file looks like it holds a credential, "" where it does not. name is its
// path in the tree, at where its bytes are.
func suspicious(name, at string, fi fs.FileInfo) string {
	if why := suspiciousName(name); why != "" {
		return why
	}
	if !fi.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(at)
	if err != nil {
		return "it cannot be looked at"
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, suspectBytes))
	if err != nil {
		return "it cannot be looked at"
	}
	for _, k := range keyShapes {
		if k.shape.Match(b) {
			return "it holds " + k.what
		}
	}
	return ""
}

func suspiciousName(name string) string {
	base := strings.ToLower(path.Base(name))
	for _, suffix := range []string{".example", ".sample", ".template", ".dist", ".pub"} {
		if strings.HasSuffix(base, suffix) {
			return ""
		}
	}
	switch {
	case base == ".env" || strings.HasPrefix(base, ".env."):
		return "an environment file"
	case strings.HasPrefix(base, "id_rsa"), strings.HasPrefix(base, "id_ed25519"), strings.HasPrefix(base, "id_ecdsa"), strings.HasPrefix(base, "id_dsa"):
		return "an SSH key"
	case base == ".netrc", base == "_netrc", base == ".npmrc", base == ".pypirc", base == ".git-credentials", base == ".htpasswd":
		return "a file of credentials"
	case base == "credentials" || base == "credentials.json", strings.HasSuffix(base, ".pem"), strings.HasSuffix(base, ".p12"),
		strings.HasSuffix(base, ".pfx"), strings.HasSuffix(base, ".keystore"), strings.HasSuffix(base, ".kdbx"):
		return "a file of keys or credentials"
	}
	return ""
}

func nameSuspects(list []Suspect) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Path + " (" + s.Why + ")"
	}
	return nameSome(names)
}
