package workspace_test

import (
	"testing"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// Lines of the files an agent writes follow the attributes of the base, in layers as in a checkout; where
// the agent changes attributes, which decide the bytes of files it did not touch, there are no layers.
func TestLayersOfTheCleanTreeFollowAttributes(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{".gitattributes": "*.bat text eol=crlf\n", "a.bat": "one\ntwo\n", "d/x": "x\n", "d/y": "y\n"})
	user.Write(gitrepo.Files{"d/x": "dirty\n", "new": "n\n"})
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		b := open(t, user, way)
		b.write(gitrepo.Files{"b.bat": "three\r\nfour\r\n"})
		b.remove("d")
		if got := listing(t, b.clean(b.snapshot())); got != listing(t, b.tree) {
			t.Errorf("the clean tree is\n%s\nthe agent's\n%s", got, listing(t, b.tree))
		}
		b.write(gitrepo.Files{".gitattributes": "*.bat -text\n"})
		_, ok, err := b.ws.CheckoutLayers(t.Context(), b.snapshot(), t.TempDir())
		if ok || err != nil {
			t.Errorf("layers over changed attributes: %v, %v", ok, err)
		}
	})
}
