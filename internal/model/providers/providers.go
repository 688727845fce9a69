// Package providers opens models by name: `provider/model`, `script:FILE` or `replay:FILE`. It
// knows the providers' addresses, wires and key names; keys themselves come from the caller.
package providers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/openai"
	"github.com/rivumi/rivumi/internal/model/scripted"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// The wires.
const (
	WireChat     = "chat-completions"
	WireMessages = "messages"
	WireScript   = "script"
	WireReplay   = "replay"
)

// Compatible is the name of the provider without an address of its own: any server of the Chat
// Completions wire, or of the Messages wire where Settings.Wire says so.
const Compatible = "compatible"

// Provider is one kind of endpoint.
type Provider struct {
	Name      string
	Wire      string
	BaseURL   string
	KeyName   string // of the environment variable by custom; "" needs none
	Local     bool   // a server on this machine, which may or may not run
	Reasoning openai.Reasoning
}

// All gives the built-in providers, in the order they are offered.
func All() []Provider {
	return []Provider{
		{Name: "openai", Wire: WireChat, BaseURL: "https://api.openai.com/v1", KeyName: "OPENAI_API_KEY"},
		{Name: "anthropic", Wire: WireMessages, BaseURL: "https://api.anthropic.com/v1", KeyName: "ANTHROPIC_API_KEY"},
		{Name: "openrouter", Wire: WireChat, BaseURL: "https://openrouter.ai/api/v1", KeyName: "OPENROUTER_API_KEY", Reasoning: openai.ReasoningDetails},
		{Name: "groq", Wire: WireChat, BaseURL: "https://api.groq.com/openai/v1", KeyName: "GROQ_API_KEY"},
		{Name: "gemini", Wire: WireChat, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", KeyName: "GEMINI_API_KEY"},
		{Name: "deepseek", Wire: WireChat, BaseURL: "https://api.deepseek.com/v1", KeyName: "DEEPSEEK_API_KEY", Reasoning: openai.ReasoningContent},
		{Name: "ollama", Wire: WireChat, BaseURL: "http://127.0.0.1:11434/v1", Local: true},
		{Name: "llamacpp", Wire: WireChat, BaseURL: "http://127.0.0.1:8080/v1", Local: true, Reasoning: openai.ReasoningOff},
		{Name: "lmstudio", Wire: WireChat, BaseURL: "http://127.0.0.1:1234/v1", Local: true},
		{Name: Compatible, Wire: WireChat, KeyName: "RIVUMI_API_KEY"},
	}
}

// Find gives a built-in provider by name.
func Find(name string) (Provider, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Settings is what opening a model needs beside its name. Zero values give the defaults.
type Settings struct {
	// Key gives the key by the provider's KeyName, "" for none. nil gives none.
	Key func(name string) string
	// BaseURL replaces the provider's address; a provider of an unknown name needs it.
	BaseURL    string
	Wire       string // of a provider of an unknown name or of Compatible: chat-completions (default) or messages
	KeyName    string // replaces the provider's KeyName
	Reasoning  string // off, content or details: which reasoning goes back; "" is the provider's own way
	TokenField string // max_tokens or max_completion_tokens; "" chooses by host
	APIVersion string // of the Messages wire; "" chooses by host
	Bearer     bool   // on the Messages wire, send the key as a bearer token
	Header     http.Header
	HTTP       wire.Options // clocks, proxy, dialer
	Facts      *model.Facts // replaces the built-in table's row
	Workdir    string       // of replay:, the root of the tree; "" is "."
}

// Info tells what was opened.
type Info struct {
	Provider string
	Model    string // what goes into Request.Model
	Wire     string
	Endpoint string // full address, or the file
	KeyName  string // "" where no key is needed
	Local    bool   // nothing leaves this machine
	Facts    model.Facts
}

// Split takes a name apart at its first slash. A script: or replay: name has that word as its
// provider. A name without a provider has "".
func Split(name string) (provider, modelName string) {
	for _, scheme := range []string{WireScript, WireReplay} {
		if rest, ok := strings.CutPrefix(name, scheme+":"); ok {
			return scheme, rest
		}
	}
	provider, modelName, ok := strings.Cut(name, "/")
	if !ok {
		return "", name
	}
	return provider, modelName
}

// Open opens a model without asking it anything. With a BaseURL, a name whose first part is no
// built-in provider is a model name of that server as a whole. Errors are *model.Error of kind
// ErrConfig; code no_key means that the key is missing and the message names its variable.
func Open(name string, s Settings) (model.Model, Info, error) {
	provider, modelName := Split(name)
	switch provider {
	case WireScript:
		p, err := scripted.Load(modelName)
		if err != nil {
			return nil, Info{}, badConfig("bad_script", err)
		}
		return p, Info{Provider: provider, Model: modelName, Wire: provider, Endpoint: modelName, Local: true}, nil
	case WireReplay:
		p, err := scripted.LoadReplay(modelName, scripted.ReplayOptions{Workdir: s.Workdir})
		if err != nil {
			return nil, Info{}, badConfig("bad_replay", err)
		}
		return p, Info{Provider: provider, Model: modelName, Wire: provider, Endpoint: modelName, Local: true}, nil
	}
	p, ok := Find(provider)
	if !ok {
		if s.BaseURL == "" {
			return nil, Info{}, unknown(name, provider)
		}
		p, _ = Find(Compatible)
		modelName = name
	}
	if modelName == "" {
		return nil, Info{}, badConfig("no_model", fmt.Errorf("%q names no model: write provider/model", name))
	}
	return p.open(modelName, s)
}

func unknown(name, provider string) error {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	if provider == "" {
		return badConfig("no_provider", fmt.Errorf("%q names no provider: write provider/model with one of %s", name, strings.Join(names, ", ")))
	}
	return badConfig("unknown_provider", fmt.Errorf("provider %q is not one of %s; give the address of another server beside its name", provider, strings.Join(names, ", ")))
}

func badConfig(code string, err error) *model.Error {
	return &model.Error{Kind: model.ErrConfig, Code: code, Message: err.Error(), Err: err}
}

func (p Provider) open(name string, s Settings) (model.Model, Info, error) {
	base := p.BaseURL
	if s.BaseURL != "" {
		base = s.BaseURL
	}
	if base == "" {
		return nil, Info{}, badConfig("bad_url", fmt.Errorf("provider %s needs the address of its server", p.Name))
	}
	if s.Wire != "" && p.Name == Compatible {
		p.Wire = s.Wire
	}
	if s.KeyName != "" {
		p.KeyName = s.KeyName
	}
	key := ""
	if s.Key != nil && p.KeyName != "" {
		key = strings.TrimSpace(s.Key(p.KeyName))
	}
	if key == "" && p.KeyName != "" && p.Name != Compatible && s.BaseURL == "" {
		return nil, Info{}, badConfig("no_key", fmt.Errorf("provider %s needs a key in %s", p.Name, p.KeyName))
	}
	facts, _ := model.Known(p.Name, name)
	if s.Facts != nil {
		facts = *s.Facts
	}
	info := Info{Provider: p.Name, Model: name, Wire: p.Wire, KeyName: p.KeyName, Local: p.Local && s.BaseURL == "", Facts: facts}
	switch p.Wire {
	case WireMessages:
		m, err := anthropic.New(anthropic.Options{
			BaseURL: base, Key: key, Bearer: s.Bearer, Header: s.Header, Version: s.APIVersion, MaxTokens: int(min(facts.MaxOutput, 32_000)), Wire: s.HTTP,
		})
		if err != nil {
			return nil, Info{}, err
		}
		info.Endpoint = m.Endpoint()
		return m, info, nil
	case WireChat:
		reasoning, err := reasoningOf(s.Reasoning, p.Reasoning)
		if err != nil {
			return nil, Info{}, err
		}
		m, err := openai.New(openai.Options{
			BaseURL: base, Key: key, Header: s.Header, Reasoning: reasoning, TokenField: s.TokenField, Wire: s.HTTP,
		})
		if err != nil {
			return nil, Info{}, err
		}
		info.Endpoint = m.Endpoint()
		return m, info, nil
	}
	return nil, Info{}, badConfig("bad_wire", fmt.Errorf("wire %q is neither %s nor %s", p.Wire, WireChat, WireMessages))
}

func reasoningOf(setting string, own openai.Reasoning) (openai.Reasoning, error) {
	switch setting {
	case "":
		return own, nil
	case "off":
		return openai.ReasoningOff, nil
	case string(openai.ReasoningContent):
		return openai.ReasoningContent, nil
	case string(openai.ReasoningDetails):
		return openai.ReasoningDetails, nil
	}
	return "", badConfig("bad_reasoning", fmt.Errorf("reasoning %q is not off, content or details", setting))
}
