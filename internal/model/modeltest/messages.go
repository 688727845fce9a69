package modeltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

// named is one event of the Messages wire.
func named(kind, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + fields + "}\n\n"
}

func blockStart(index int, block string) string {
	return named("content_block_start", fmt.Sprintf(`"index":%d,"content_block":%s`, index, block))
}

func blockDelta(index int, delta string) string {
	return named("content_block_delta", fmt.Sprintf(`"index":%d,"delta":%s`, index, delta))
}

func blockStop(index int) string {
	return named("content_block_stop", fmt.Sprintf(`"index":%d`, index))
}

func inputPiece(index int, s string) string {
	return blockDelta(index, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, s))
}

func stopFor(reason string) string {
	return named("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q},"usage":{"output_tokens":7}`, reason)) + named("message_stop", "")
}

const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":11,\"output_tokens\":1,\"cache_read_input_tokens\":5}}}\n\n"
	toolA        = `{"type":"tool_use","id":"t1","name":"bash","input":{}}`
	toolB        = `{"type":"tool_use","id":"t2","name":"read","input":{}}`
)

func textBlock(index int, words ...string) string {
	var b strings.Builder
	b.WriteString(blockStart(index, `{"type":"text","text":""}`))
	for _, w := range words {
		b.WriteString(blockDelta(index, fmt.Sprintf(`{"type":"text_delta","text":%q}`, w)))
	}
	return b.String() + blockStop(index)
}

func toolBlock(index int, start, args string) string {
	return blockStart(index, start) + inputPiece(index, "") + inputPiece(index, args[:5]) + inputPiece(index, args[5:]) + blockStop(index)
}

// MessagesCases are the hostile providers of the Messages wire.
func MessagesCases() []Case {
	return slicesOf(messagesLines(), messagesBlocks(), messagesEnds(), messagesDocuments(), messagesStatuses(),
		clocks(messageStart+blockStart(0, `{"type":"text","text":""}`)+blockDelta(0, `{"type":"text_delta","text":"Hi"}`)), pings())
}

func messagesLines() []Case {
	ok := Want{Text: "Hi there", Finish: model.FinishStop, In: 11, Out: 7}
	plain := messageStart + named("ping", "") + textBlock(0, "Hi ", "there") + stopFor("end_turn")
	big := strings.Repeat("x", 2<<20)
	var bare strings.Builder
	for line := range strings.Lines(plain) {
		if !strings.HasPrefix(line, "event:") {
			bare.WriteString(line)
		}
	}
	return []Case{
		{Name: "plain text", Answers: stream(plain), Want: ok},
		{Name: "CRLF line ends", Answers: stream(strings.ReplaceAll(plain, "\n", "\r\n")), Want: ok},
		{Name: "CR line ends", Answers: stream(strings.ReplaceAll(plain, "\n", "\r")), Want: ok},
		{Name: "byte-order mark", Answers: stream("\ufeff" + plain), Want: ok},
		{Name: "MD-01 comments, pings and unknown events", Answers: stream(": PROCESSING\n\n:\n\nretry: 100\n\nevent: ping\n\n" + named("ping", "") + named("novelty", `"index":0,"delta":{"type":"x"}`) + plain), Want: ok},
		{Name: "no event lines", Answers: stream(bare.String()), Want: ok},
		{Name: "no final empty line", Answers: stream(strings.TrimSuffix(plain, "\n\n")), Want: ok},
		{Name: "single bytes", Answers: []Answer{{ByByte: true, Parts: []any{messageStart + textBlock(0, "Grüße 🙂") + stopFor("end_turn")}}}, Want: Want{Text: "Grüße 🙂"}},
		{Name: "event of 2 MiB", Answers: stream(messageStart + textBlock(0, big) + stopFor("end_turn")), Want: Want{Text: big}},
		{Name: "event above 8 MiB", Answers: []Answer{{Parts: []any{"data: ", strings.Repeat("y", 9<<20)}}}, Want: Want{Kind: model.ErrTooBig}},
		{Name: "broken JSON in the middle", Answers: stream(messageStart + textBlock(0, "Hi") + "data: {oops\n\n" + stopFor("end_turn")), Want: Want{Kind: model.ErrProtocol, Emitted: true}},
	}
}

func messagesBlocks() []Case {
	one := Want{Calls: []string{callA}, Finish: model.FinishCalls, In: 11, Out: 7}
	return []Case{
		{Name: "text and a call", Answers: stream(messageStart + textBlock(0, "Hi") + toolBlock(1, toolA, argsA) + stopFor("tool_use")), Want: Want{Text: "Hi", Calls: []string{callA}, Finish: model.FinishCalls}},
		{Name: "two calls", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + toolBlock(1, toolB, argsB) + stopFor("tool_use")), Want: Want{Calls: []string{callA, callB}}},
		{Name: "MD-02 interleaved blocks", Answers: stream(messageStart + blockStart(0, toolA) + blockStart(1, toolB) + inputPiece(0, argsA[:4]) + inputPiece(1, argsB[:4]) + inputPiece(0, argsA[4:]) + inputPiece(1, argsB[4:]) + blockStop(0) + blockStop(1) + stopFor("tool_use")), Want: Want{Calls: []string{callA, callB}}},
		{Name: "MD-02 a block begins twice", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + toolBlock(0, toolB, argsB) + stopFor("tool_use")), Want: Want{Kind: model.ErrProtocol, Emitted: true}},
		{Name: "a piece before its block", Answers: stream(messageStart + inputPiece(3, argsA) + stopFor("tool_use")), Want: Want{Kind: model.ErrProtocol}},
		{Name: "duplicate ids", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + toolBlock(1, strings.Replace(toolB, "t2", "t1", 1), argsB) + stopFor("tool_use")), Want: Want{Calls: []string{callA, callB}}},
		{Name: "input in the start event", Answers: stream(messageStart + blockStart(0, strings.Replace(toolA, `{}`, argsA, 1)) + blockStop(0) + stopFor("tool_use")), Want: one},
		{Name: "no input", Answers: stream(messageStart + blockStart(0, toolA) + inputPiece(0, "") + blockStop(0) + stopFor("tool_use")), Want: Want{Calls: []string{"bash {}"}}},
		{Name: "stop reason end_turn with a call", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + stopFor("end_turn")), Want: one},
		{Name: "MD-03 invalid JSON input", Answers: stream(messageStart + toolBlock(0, toolA, "not json") + stopFor("tool_use")), Want: Want{Calls: []string{"bash BAD"}}},
		{Name: "MD-03 max_tokens inside input", Answers: stream(messageStart + blockStart(0, toolA) + inputPiece(0, `{"command":"rm -rf /tmp/x`) + stopFor("max_tokens")), Want: Want{Calls: []string{"bash BAD"}, Finish: model.FinishLength}},
		{Name: "max_tokens after whole input", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + stopFor("max_tokens")), Want: Want{Calls: []string{"bash BAD"}, Finish: model.FinishLength}},
		{Name: "a call that was not closed", Answers: stream(messageStart + blockStart(0, toolA) + stopFor("tool_use")), Want: Want{Calls: []string{"bash BAD"}}},
		{Name: "thinking", Answers: stream(messageStart + blockStart(0, `{"type":"thinking","thinking":"","signature":""}`) + blockDelta(0, `{"type":"thinking_delta","thinking":"hm"}`) + blockDelta(0, `{"type":"signature_delta","signature":"sig"}`) + blockStop(0) + textBlock(1, "Hi") + stopFor("end_turn")), Want: Want{Text: "Hi", Reasoned: true}},
		{Name: "redacted thinking", Answers: stream(messageStart + blockStart(0, `{"type":"redacted_thinking","data":"xyz"}`) + blockStop(0) + textBlock(1, "Hi") + stopFor("end_turn")), Want: Want{Text: "Hi", Reasoned: true}},
		{Name: "unknown block", Answers: stream(messageStart + blockStart(0, `{"type":"server_tool_use","id":"s","name":"web"}`) + inputPiece(0, "{}") + blockStop(0) + textBlock(1, "Hi") + stopFor("end_turn")), Want: Want{Text: "Hi"}},
	}
}

func messagesEnds() []Case {
	overloaded := named("error", `"error":{"type":"overloaded_error","message":"Overloaded"}`)
	hi := Answer{Parts: []any{messageStart + textBlock(0, "Hi") + stopFor("end_turn")}}
	delta := named("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}`)
	return []Case{
		{Name: "MD-07 cut inside input, clean end", Answers: stream(messageStart + blockStart(0, toolA) + inputPiece(0, `{"command":"rm -rf /tmp/x`)), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "MD-07 text without an end", Answers: stream(messageStart + textBlock(0, "I will now run:")), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "cut inside an event", Answers: stream(messageStart + textBlock(0, "Hi") + "event: message_delta\ndata: {\"type\":\"mess"), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "reset during the text", Answers: []Answer{{Parts: []any{messageStart + textBlock(0, "Hi"), 50 * time.Millisecond, Reset}}}, Want: Want{Kind: model.ErrTransport, Emitted: true}},
		{Name: "no message_stop", Answers: stream(messageStart + textBlock(0, "Hi") + delta), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "overloaded before anything", Answers: []Answer{{Parts: []any{overloaded}}, hi}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "overloaded after the start", Answers: []Answer{{Parts: []any{messageStart + overloaded}}, hi}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "overloaded after text", Answers: stream(messageStart + textBlock(0, "Hi") + overloaded), Want: Want{Kind: model.ErrStream, Status: 529, Emitted: true, Message: "Overloaded"}},
		{Name: "invalid request in the stream", Answers: stream(named("error", `"error":{"type":"invalid_request_error","message":"no"}`)), Want: Want{Kind: model.ErrStream, Status: 400}},
		{Name: "MD-05 empty body", Answers: stream(""), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-05 no blocks", Answers: stream(messageStart + stopFor("end_turn")), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-05 only pings", Answers: stream(named("ping", "") + named("ping", "")), Want: Want{Kind: model.ErrTruncated, Attempts: 3}},
		{Name: "MD-12 max_tokens without text", Answers: stream(messageStart + stopFor("max_tokens")), Want: Want{Kind: model.ErrContext}},
		{Name: "pause_turn", Answers: stream(messageStart + textBlock(0, "Hi") + stopFor("pause_turn")), Want: Want{Text: "Hi", Finish: model.FinishPause}},
		{Name: "refusal", Answers: stream(messageStart + textBlock(0, "I cannot.") + stopFor("refusal")), Want: Want{Text: "I cannot.", Finish: model.FinishRefusal}},
		{Name: "context full", Answers: stream(messageStart + textBlock(0, "Hi") + toolBlock(1, toolA, argsA) + stopFor("model_context_window_exceeded")), Want: Want{Text: "Hi", Calls: []string{"bash BAD"}, Finish: model.FinishLength}},
		{Name: "unknown stop reason with a call", Answers: stream(messageStart + toolBlock(0, toolA, argsA) + stopFor("because")), Want: Want{Calls: []string{"bash BAD"}}},
	}
}

func messagesDocuments() []Case {
	whole := `{"type":"message","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hi"},{"type":"tool_use","id":"t1","name":"bash","input":{"command":"ls -l"}}],"stop_reason":"tool_use","usage":{"input_tokens":11,"output_tokens":7}}`
	want := Want{Text: "Hi", Calls: []string{callA}, Finish: model.FinishCalls, In: 11, Out: 7, Reasoned: true}
	return []Case{
		{Name: "full JSON answer", Answers: document(200, whole), Want: want},
		{Name: "full JSON answer as an event stream", Answers: stream(whole), Want: want},
		{Name: "full JSON answer cut by max_tokens", Answers: document(200, strings.Replace(whole, `"stop_reason":"tool_use"`, `"stop_reason":"max_tokens"`, 1)), Want: Want{Text: "Hi", Calls: []string{"bash BAD"}, Finish: model.FinishLength, Reasoned: true}},
		{Name: "MD-11 error object in a 200", Answers: document(200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), Want: Want{Kind: model.ErrStatus, Status: 529, Attempts: 3}},
		{Name: "error object without a type in a 200", Answers: document(200, `{"error":{"message":"no such model"}}`), Want: Want{Kind: model.ErrStatus, Status: 200}},
		{Name: "MD-05 content empty", Answers: document(200, `{"type":"message","content":[],"stop_reason":"end_turn"}`), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "JSON of something else", Answers: document(200, `{"status":"ok"}`), Want: Want{Kind: model.ErrProtocol}},
		{Name: "JSON cut", Answers: document(200, whole[:80]), Want: Want{Kind: model.ErrTruncated, Attempts: 3}},
		{Name: "MD-11 HTML in a 200", Answers: []Answer{{Type: "text/html", Parts: []any{webPage}}}, Want: Want{Kind: model.ErrProtocol, Message: "Sign in"}},
	}
}

func messagesStatuses() []Case {
	fault := func(status int, kind, message string, header map[string]string) []Answer {
		return []Answer{{Status: status, Type: "application/json", Header: header, Parts: []any{fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)}}}
	}
	hi := Answer{Parts: []any{messageStart + textBlock(0, "Hi") + stopFor("end_turn")}}
	return []Case{
		{Name: "400", Answers: fault(400, "invalid_request_error", "messages: no", nil), Want: Want{Kind: model.ErrStatus, Status: 400, Message: "messages: no"}},
		{Name: "MD-11 401", Answers: fault(401, "authentication_error", "invalid x-api-key "+Key, nil), Want: Want{Kind: model.ErrStatus, Status: 401}},
		{Name: "404", Answers: fault(404, "not_found_error", "model: m", nil), Want: Want{Kind: model.ErrStatus, Status: 404}},
		{Name: "413 request_too_large", Answers: fault(413, "request_too_large", "Request exceeds the maximum size", nil), Want: Want{Kind: model.ErrContext, Status: 413}},
		{Name: "MD-12 prompt is too long", Answers: fault(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", nil), Want: Want{Kind: model.ErrContext}},
		{Name: "429, then fine", Answers: append(fault(429, "rate_limit_error", "slow", nil), hi), Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "529, then fine", Answers: append(fault(529, "overloaded_error", "busy", nil), hi), Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "500 three times", Answers: fault(500, "api_error", "oops", nil), Want: Want{Kind: model.ErrStatus, Status: 500, Attempts: 3}},
		{Name: "MD-08 Retry-After 3600", Answers: fault(429, "rate_limit_error", "slow", map[string]string{"Retry-After": "3600"}), Want: Want{Kind: model.ErrStatus, Status: 429, Message: "asks to wait"}},
		{Name: "307 to another origin", Answers: []Answer{{Status: 307, Header: map[string]string{"Location": "OTHER/v1/messages"}}}, Want: Want{Kind: model.ErrStatus, Status: 307, Message: "redirect"}},
	}
}

func pings() []Case {
	return []Case{{
		Name: "pings for ever", Idle: true, Answers: []Answer{{Forever: true, Parts: []any{named("ping", ""), 30 * time.Millisecond}}},
		Want: Want{Kind: model.ErrIdle, Message: "no part", Attempts: 3},
	}}
}
