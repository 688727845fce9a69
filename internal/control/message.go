package control

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of messages.
const (
	MaxMail         = 100 // messages that wait for the agent
	MaxMessageRunes = contract.MaxInstructionRunes
	messageID       = "msg_"
)

// Send stores a message for the agent's next step together with its event. An ended run is
// KindRunFinished, a full mailbox KindTooManyRequests.
func (c *Core) Send(tx Tx, env Env, text string) (contract.Message, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Message{}, err
	}
	if en.h.Status.Terminal() {
		return contract.Message{}, finished()
	}
	m, err := en.send(text)
	if err != nil {
		return contract.Message{}, err
	}
	return m, en.save()
}

func (en *entry) send(text string) (contract.Message, error) {
	if why := checkMessage(text); why != "" {
		return contract.Message{}, contract.Refuse([]contract.Refusal{{Field: "text", Code: "invalid_text", Detail: why}})
	}
	if en.h.Mail >= MaxMail {
		return contract.Message{}, contract.Errorf(contract.KindTooManyRequests, "%d messages wait for the agent already", en.h.Mail)
	}
	m := contract.Message{ID: contract.RandomID(messageID, en.env.Entropy[32:]), Text: contract.CleanText(text), At: en.now}
	if err := en.tell(0, contract.MessageUser{Message: m}); err != nil {
		return contract.Message{}, err
	}
	en.h.Mail++
	return m, put(en.tx, numbered(prefixMessage, en.h.LastSeq), m)
}

func checkMessage(text string) string {
	switch {
	case strings.TrimSpace(text) == "":
		return "must not be empty or only white space"
	case utf8.RuneCountInString(text) > MaxMessageRunes:
		return "must be at most 32000 characters"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "must be UTF-8 without NUL"
	}
	return ""
}

// Mail reports whether messages wait to be taken. It writes nothing.
func (c *Core) Mail(tx Tx) (bool, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return false, err
	}
	return en.h.Mail > 0, nil
}

// TakeMessages hands over the messages queued since the last call, oldest first, and marks them
// taken. Without any it writes nothing.
func (c *Core) TakeMessages(tx Tx, env Env, attempt int) ([]contract.Message, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return nil, err
	}
	if err := en.fence(attempt); err != nil {
		return nil, err
	}
	if en.h.Mail == 0 {
		return nil, nil
	}
	out, err := en.takeMessages()
	if err != nil {
		return nil, err
	}
	return out, en.save()
}

func (en *entry) takeMessages() ([]contract.Message, error) {
	var out []contract.Message
	err := each(en.tx, prefixMessage, func(r Record) error {
		var m contract.Message
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return contract.Errorf(contract.KindInternal, "read message: %w", err)
		}
		out = append(out, m)
		return en.tx.Delete(r.Key)
	})
	en.h.Mail = 0
	return out, err
}
