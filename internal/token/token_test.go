package token

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
)

var (
	one = Secret{ID: "k1", Bytes: []byte("0123456789abcdef0123456789abcdef")}
	two = Secret{ID: "k2", Bytes: []byte("fedcba9876543210fedcba9876543210")}
	now = time.Unix(1_800_000_000, 0)
	run = contract.NewRunID(one.Bytes, make([]byte, contract.RunIDEntropy))
)

func keys(t testing.TB, current Secret, older ...Secret) *Keys {
	t.Helper()
	k, err := NewKeys(current, older...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func claims(a Audience) Claims {
	return Claims{
		Audience: a, Run: run, Attempt: 1, Model: "good",
		IssuedAt: now.Unix(), Expires: now.Unix() + 300, Nonce: "n",
	}
}

func mint(t testing.TB, k *Keys, c Claims) string {
	t.Helper()
	tok, err := k.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestATokenSaysWhatItWasMintedFor(t *testing.T) {
	k := keys(t, one)
	for _, a := range Audiences() {
		got, err := k.Verify(mint(t, k, claims(a)), a, now)
		want := claims(a)
		want.V, want.KeyID = Version, "k1"
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", a, got, err)
		}
	}
}

func TestAPayloadHoldsTheNamedClaimsOnly(t *testing.T) {
	payload, _, _ := strings.Cut(mint(t, keys(t, one), claims(Model)), ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v", "kid", "aud", "runId", "attempt", "model", "iat", "exp", "nonce"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no claim %s", name)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("more claims: %v", fields)
	}
}

func TestRefusals(t *testing.T) {
	k := keys(t, one)
	good := mint(t, k, claims(Model))
	payload, mac, _ := strings.Cut(good, ".")
	otherKind := base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"kid":"k1","aud":"model","x":1}`))
	cases := map[string]string{
		"empty": "", "no dot": payload + mac, "two dots": good + ".x", "no mac": payload + ".", "padding": good + "=",
		"standard alphabet": payload + "." + strings.Repeat("+", len(mac)), "short mac": payload + "." + mac[:20],
		"huge": strings.Repeat("a", MaxTokenBytes) + "." + mac, "payload not JSON": "e30x." + mac,
		"other audience":  mint(t, k, claims(Events)),
		"other secret":    mint(t, keys(t, two), claims(Model)),
		"unknown claim":   otherKind + "." + base64.RawURLEncoding.EncodeToString(sign(k.keys["k1"][Model], otherKind)),
		"same id, forged": mint(t, keys(t, Secret{ID: "k1", Bytes: two.Bytes}), claims(Model)),
	}
	var text string
	for name, tok := range cases {
		_, err := k.Verify(tok, Model, now)
		if contract.KindOf(err) != contract.KindInactiveToken {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text == "" {
			text = err.Error()
		}
		if err.Error() != text {
			t.Errorf("%s is told apart: %q", name, err)
		}
	}
}

func TestDK04AnotherClockIsNamed(t *testing.T) {
	k := keys(t, one)
	at := func(iat, exp int64) string {
		c := claims(Events)
		c.IssuedAt, c.Expires = now.Unix()+iat, now.Unix()+exp
		return mint(t, k, c)
	}
	for _, c := range []struct {
		name     string
		iat, exp int64
		ok       bool
		clock    bool
	}{
		{"fresh", 0, 1, true, false},
		{"ends now", -10, 0, false, false},
		{"ended", -10, -1, false, false},
		{"a little ahead", 30, 60, true, false},
		{"from the future", 31, 60, false, true},
	} {
		_, err := k.Verify(at(c.iat, c.exp), Events, now)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if named := err != nil && strings.Contains(err.Error(), "clock"); named != c.clock {
			t.Errorf("%s: clock named %v: %v", c.name, named, err)
		}
	}
}

func TestRotationAcceptsTheOlderKeyUntilItIsDropped(t *testing.T) {
	old := mint(t, keys(t, one), claims(Model))
	rotating := keys(t, two, one)
	if _, err := rotating.Verify(old, Model, now); err != nil {
		t.Errorf("older token while rotating: %v", err)
	}
	fresh, err := rotating.Verify(mint(t, rotating, claims(Model)), Model, now)
	if err != nil || fresh.KeyID != "k2" {
		t.Errorf("fresh token: %+v, %v", fresh, err)
	}
	if _, err := keys(t, two).Verify(old, Model, now); err == nil {
		t.Error("older token is accepted after its key is gone")
	}
}

func TestBadKeysAndClaimsAreRefused(t *testing.T) {
	for name, s := range map[string][]Secret{
		"short":   {{ID: "k", Bytes: one.Bytes[:31]}},
		"no id":   {{Bytes: one.Bytes}},
		"bad id":  {{ID: "K 1", Bytes: one.Bytes}},
		"twice":   {one, one},
		"older":   {one, {ID: "k0", Bytes: []byte("short")}},
		"long id": {{ID: strings.Repeat("k", 33), Bytes: one.Bytes}},
	} {
		if _, err := NewKeys(s[0], s[1:]...); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	k := keys(t, one)
	for name, spoil := range map[string]func(*Claims){
		"audience": func(c *Claims) { c.Audience = "admin" }, "run": func(c *Claims) { c.Run = "run_x" },
		"attempt": func(c *Claims) { c.Attempt = 0 }, "nonce": func(c *Claims) { c.Nonce = "" },
		"life": func(c *Claims) { c.Expires = c.IssuedAt }, "length": func(c *Claims) { c.Model = strings.Repeat("m", 3000) },
	} {
		c := claims(Model)
		spoil(&c)
		if _, err := k.Mint(c); err == nil {
			t.Errorf("bad %s is minted", name)
		}
	}
}

// Whatever one byte of a token becomes, it opens nothing.
func TestNoChangedTokenOpensAnything(t *testing.T) {
	k := keys(t, two, one)
	good := mint(t, k, claims(Approvals))
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(good)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "byte")
		if b[i] == c {
			t.Skip("unchanged")
		}
		b[i] = c
		if got, err := k.Verify(string(b), Approvals, now); err == nil {
			t.Fatalf("opens %+v", got)
		}
	})
}

// A token opens exactly its audience, exactly while it lives.
func TestATokenOpensItsAudienceWhileItLives(t *testing.T) {
	k := keys(t, one)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(Audiences()).Draw(t, "aud")
		want := rapid.SampledFrom(Audiences()).Draw(t, "want")
		iat, life := rapid.Int64Range(-500, 500).Draw(t, "iat"), rapid.Int64Range(1, 500).Draw(t, "life")
		c := claims(a)
		c.IssuedAt, c.Expires = now.Unix()+iat, now.Unix()+iat+life
		tok, err := k.Mint(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Verify(tok, want, now)
		if ok := a == want && iat <= 30 && iat+life > 0; ok != (err == nil) {
			t.Fatalf("aud %s as %s, iat %d, life %d: %v", a, want, iat, life, err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	k := keys(f, one, two)
	good := mint(f, k, claims(Model))
	f.Add(good)
	f.Add("")
	f.Add("e30.e30")
	f.Add(strings.ToUpper(good))
	f.Fuzz(func(t *testing.T, tok string) {
		if _, err := k.Verify(tok, Model, now); err == nil && tok != good {
			t.Fatalf("%q opens the model route", tok)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k := keys(b, one, two)
	tok := mint(b, k, claims(Model))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Verify(tok, Model, now); err != nil {
			b.Fatal(err)
		}
	}
}
