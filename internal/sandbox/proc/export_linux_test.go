package proc

import "github.com/rivumi/rivumi/internal/sandbox"

// GroupDirs makes a control group and gives where.
func GroupDirs(mount, member string, l sandbox.Limits) []string {
	if g := newGroup(mount, member, l); g != nil {
		return g.dirs
	}
	return nil
}
