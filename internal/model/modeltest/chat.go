package modeltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

const done = "data: [DONE]\n\n"

func data(s string) string { return "data: " + s + "\n\n" }

func text(s string) string {
	return data(fmt.Sprintf(`{"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, s))
}

func finish(reason string) string {
	return data(fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason))
}

func usage(in, out int) string {
	return data(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":9}}`, in, out))
}

// piece is a fragment of tool calls.
func piece(calls ...string) string {
	return data(`{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Join(calls, ",") + `]}}]}`)
}

// bytePieces sends arguments one byte a fragment; where stands before the function, such as `"index":0,`.
func bytePieces(where, args string) string {
	var b strings.Builder
	for i := range len(args) {
		b.WriteString(piece(fmt.Sprintf(`{%s"function":{"arguments":%q}}`, where, args[i:i+1])))
	}
	return b.String()
}

func stream(parts ...string) []Answer { return []Answer{{Parts: []any{strings.Join(parts, "")}}} }

func document(status int, body string) []Answer {
	return []Answer{{Status: status, Type: "application/json", Parts: []any{body}}}
}

const (
	argsA   = `{"command":"ls -l"}`
	argsB   = `{"path":"a.txt"}`
	headA   = `{"index":0,"id":"c1","type":"function","function":{"name":"bash","arguments":""}}`
	headB   = `{"index":1,"id":"c2","type":"function","function":{"name":"read","arguments":""}}`
	wholeA  = `{"index":0,"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls -l\"}"}}`
	callA   = "bash " + argsA
	callB   = "read " + argsB
	goodEnd = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
)

// ChatCases are the hostile providers of the Chat Completions wire.
func ChatCases() []Case {
	return slicesOf(chatLines(), chatCalls(), chatEnds(), chatDocuments(), chatStatuses(), chatClocks())
}

func slicesOf(lists ...[]Case) []Case {
	var out []Case
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func chatLines() []Case {
	ok := Want{Text: "Hi there", Finish: model.FinishStop, In: 11, Out: 7}
	plain := text("Hi ") + text("there") + finish("stop") + usage(11, 7) + done
	noise := ": PROCESSING\n\n: PROCESSING\n\n: PROCESSING\n\n:\n\nretry: 100\n\nevent: ping\n\n"
	big := strings.Repeat("x", 2<<20)
	return []Case{
		{Name: "plain text", Answers: stream(plain), Want: ok},
		{Name: "CRLF line ends", Answers: stream(strings.ReplaceAll(plain, "\n", "\r\n")), Want: ok},
		{Name: "CR line ends", Answers: stream(strings.ReplaceAll(plain, "\n", "\r")), Want: ok},
		{Name: "byte-order mark", Answers: stream("\ufeff" + plain), Want: ok},
		{Name: "MD-01 comments, lone colon, retry and ping", Answers: stream(noise + plain), Want: ok},
		{Name: "MD-01 the same with CRLF", Answers: stream(strings.ReplaceAll(noise+plain, "\n", "\r\n")), Want: ok},
		{Name: "no space after data:", Answers: stream(strings.ReplaceAll(plain, "data: ", "data:")), Want: ok},
		{Name: "no final empty line", Answers: stream(strings.TrimSuffix(plain, "\n\n"+done) + ""), Want: ok},
		{Name: "data over several lines", Answers: stream("data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"Hi there\"}}]}\n\n" + finish("stop") + usage(11, 7) + done), Want: ok},
		{Name: "single bytes", Answers: []Answer{{ByByte: true, Parts: []any{text("Grüße 🙂") + goodEnd}}}, Want: Want{Text: "Grüße 🙂", Unknown: true}},
		{Name: "event of 2 MiB", Answers: stream(text(big) + goodEnd), Want: Want{Text: big}},
		{Name: "event above 8 MiB", Answers: []Answer{{Parts: []any{"data: ", strings.Repeat("y", 9<<20)}}}, Want: Want{Kind: model.ErrTooBig}},
		{Name: "answer above 64 MiB", Answers: []Answer{{Forever: true, Parts: []any{": " + strings.Repeat("z", 1<<20) + "\n"}}}, Want: Want{Kind: model.ErrTooBig}},
		{Name: "served as JSON", Answers: []Answer{{Type: "application/json", Parts: []any{plain}}}, Want: ok},
		{Name: "no content type", Answers: []Answer{{Type: "-", Parts: []any{plain}}}, Want: ok},
		{Name: "broken JSON in the middle", Answers: stream(text("Hi") + "data: {oops\n\n" + goodEnd), Want: Want{Kind: model.ErrProtocol, Emitted: true}},
		{Name: "unknown fields and a second choice", Answers: stream(data(`{"novel":1,"choices":[{"index":0,"delta":{"content":"Hi","odd":{}},"logprobs":null},{"index":1,"delta":{"content":"other"}}]}`) + goodEnd), Want: Want{Text: "Hi"}},
		{Name: "content in parts", Answers: stream(data(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Hi"}]}}]}`) + goodEnd), Want: Want{Text: "Hi"}},
	}
}

func chatCalls() []Case {
	two := Want{Calls: []string{callA, callB}, Finish: model.FinishCalls}
	one := Want{Calls: []string{callA}, Finish: model.FinishCalls}
	headAgain := strings.Replace(headB, `"index":1`, `"index":0`, 1)
	noIndexA, noIndexB := strings.Replace(headA, `"index":0,`, "", 1), strings.Replace(headB, `"index":1,`, "", 1)
	wholeB := `{"index":0,"id":"c2","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}`
	end := finish("tool_calls") + done
	named := func(s string) string {
		return fmt.Sprintf(`{"index":0,"id":"c1","function":{"name":"bash","arguments":%q}}`, s)
	}
	return []Case{
		{Name: "MD-02a id in the first fragment only", Answers: stream(piece(headA), bytePieces(`"index":0,`, argsA), piece(headB), bytePieces(`"index":1,`, argsB), end), Want: two},
		{Name: "MD-02b no index anywhere", Answers: stream(piece(noIndexA), bytePieces("", argsA), piece(noIndexB), bytePieces("", argsB), end), Want: two},
		{Name: "MD-02c second head on index 0", Answers: stream(piece(headA), bytePieces(`"index":0,`, argsA), piece(headAgain), bytePieces(`"index":0,`, argsB), end), Want: two},
		{Name: "MD-02d truly ambiguous", Answers: stream(piece(noIndexA), piece(noIndexB), bytePieces("", argsA), end), Want: Want{Kind: model.ErrProtocol, Emitted: true}},
		{Name: "MD-02e both heads on index 0, then pieces", Answers: stream(piece(headA), piece(headAgain), bytePieces(`"index":0,`, argsA), end), Want: Want{Kind: model.ErrProtocol, Emitted: true}},
		{Name: "interleaved fragments", Answers: stream(
			piece(headA, headB), piece(`{"index":0,"function":{"arguments":"{\"command\":"}}`), piece(`{"index":1,"function":{"arguments":"{\"path\":"}}`),
			piece(`{"index":0,"function":{"arguments":"\"ls -l\"}"}}`), piece(`{"index":1,"function":{"arguments":"\"a.txt\"}"}}`), end), Want: two},
		{Name: "whole calls, both index 0", Answers: stream(piece(wholeA, wholeB), end), Want: two},
		{Name: "whole calls without index", Answers: stream(piece(strings.Replace(wholeA, `"index":0,`, "", 1), strings.Replace(wholeB, `"index":0,`, "", 1)), end), Want: two},
		{Name: "whole calls without index and id", Answers: stream(piece(`{"function":{"name":"bash","arguments":"{\"command\":\"ls -l\"}"}}`, `{"function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}`), end), Want: two},
		{Name: "id and name with every fragment", Answers: stream(piece(named(`{"command":`)), piece(named(`"ls `)), piece(named(`-l"}`)), end), Want: one},
		{Name: "name with every fragment, ids null", Answers: stream(piece(`{"index":0,"id":null,"function":{"name":"bash","arguments":"{\"command\":"}}`), piece(`{"index":0,"id":null,"function":{"name":"bash","arguments":"\"ls -l\"}"}}`), end), Want: one},
		{Name: "empty name later", Answers: stream(piece(headA), piece(`{"index":0,"id":"","function":{"name":"","arguments":"{\"command\":\"ls -l\"}"}}`), end), Want: one},
		{Name: "duplicate ids", Answers: stream(piece(wholeA, strings.Replace(strings.Replace(wholeB, `"index":0`, `"index":1`, 1), "c2", "c1", 1)), end), Want: two},
		{Name: "arguments as an object", Answers: stream(piece(`{"index":0,"id":"c1","function":{"name":"bash","arguments":{"command":"ls -l"}}}`), end), Want: one},
		{Name: "empty arguments", Answers: stream(piece(headA), end), Want: Want{Calls: []string{"bash {}"}}},
		{Name: "legacy function_call", Answers: stream(data(`{"choices":[{"index":0,"delta":{"function_call":{"name":"bash","arguments":"{\"command\":"}}}]}`), data(`{"choices":[{"index":0,"delta":{"function_call":{"arguments":"\"ls -l\"}"}}}]}`), finish("function_call"), done), Want: one},
		{Name: "finish stop with calls", Answers: stream(piece(wholeA), finish("stop"), done), Want: one},
		{Name: "finish in a later chunk", Answers: stream(piece(wholeA), data(`{"choices":[{"index":0,"delta":{},"finish_reason":null}]}`), data(`{"choices":[{"index":0,"delta":null,"finish_reason":"tool_calls"}]}`), done), Want: one},
		{Name: "MD-03 invalid JSON arguments", Answers: stream(piece(`{"index":0,"id":"c1","function":{"name":"bash","arguments":"not json"}}`), end), Want: Want{Calls: []string{"bash BAD"}}},
		{Name: "arguments are a list", Answers: stream(piece(`{"index":0,"id":"c1","function":{"name":"bash","arguments":"[1]"}}`), end), Want: Want{Calls: []string{"bash BAD"}}},
		{Name: "MD-03 length inside arguments", Answers: stream(piece(`{"index":0,"id":"c1","function":{"name":"write","arguments":"{\"path\":\"a\",\"content\":\"half"}}`), finish("length"), done), Want: Want{Calls: []string{"write BAD"}, Finish: model.FinishLength}},
		{Name: "length after whole arguments", Answers: stream(piece(wholeA), finish("length"), done), Want: Want{Calls: []string{"bash BAD"}, Finish: model.FinishLength}},
		{Name: "unknown finish reason with a call", Answers: stream(piece(wholeA), finish("because"), done), Want: Want{Calls: []string{"bash BAD"}}},
		{Name: "two objects in one call", Answers: stream(piece(`{"index":0,"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"a\"}{\"command\":\"b\"}"}}`), end), Want: Want{Calls: []string{"bash BAD"}}},
	}
}

func chatEnds() []Case {
	cutArgs := piece(headA) + piece(`{"index":0,"function":{"arguments":"{\"cmd\":\"rm -rf /tmp/x"}}`)
	err503 := data(`{"error":{"message":"upstream is down","code":503}}`)
	return []Case{
		{Name: "MD-07 cut inside arguments, clean end", Answers: stream(cutArgs), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "MD-07 cut inside arguments, then the mark", Answers: stream(cutArgs + done), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "MD-07 text without an end mark", Answers: stream(text("I will now run:")), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "cut inside an event", Answers: stream(text("Hi") + `data: {"choices":[{"index":0,"delta":{"cont`), Want: Want{Kind: model.ErrTruncated, Emitted: true}},
		{Name: "cut before anything", Answers: []Answer{{Parts: []any{": hello\n\n"}}, {Parts: []any{text("Hi") + goodEnd}}}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "reset during the text", Answers: []Answer{{Parts: []any{text("Hi"), 50 * time.Millisecond, Reset}}}, Want: Want{Kind: model.ErrTransport, Emitted: true}},
		{Name: "reset after the finish reason", Answers: []Answer{{Parts: []any{text("Hi") + finish("stop"), 50 * time.Millisecond, Reset}}}, Want: Want{Text: "Hi", Unknown: true}},
		{Name: "no [DONE]", Answers: stream(text("Hi") + finish("stop")), Want: Want{Text: "Hi"}},
		{Name: "no finish reason but the mark", Answers: stream(text("Hi") + done), Want: Want{Text: "Hi"}},
		{Name: "MD-05 empty body", Answers: stream(""), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-05 only the mark", Answers: stream(done), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-05 stop without content", Answers: stream(data(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}`) + done), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-05 white space only", Answers: stream(text(" \n") + goodEnd), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "promised calls, none came", Answers: stream(finish("tool_calls") + done), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-12 length without text", Answers: stream(finish("length") + done), Want: Want{Kind: model.ErrContext}},
		{Name: "length by reasoning", Answers: stream(data(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`) + finish("length") + done), Want: Want{Kind: model.ErrEmpty, Emitted: true, Message: "reasoning"}},
		{Name: "MD-05 usage with every chunk", Answers: stream(data(`{"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":11,"completion_tokens":1}}`) + usage(11, 7) + goodEnd), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "usage of Groq", Answers: stream(text("Hi") + data(`{"choices":[],"x_groq":{"usage":{"prompt_tokens":11,"completion_tokens":7}}}`) + goodEnd), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "usage with cached tokens", Answers: stream(text("Hi") + data(`{"choices":[],"usage":{"prompt_tokens":111,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":100}}}`) + goodEnd), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "error null", Answers: stream(data(`{"error":null,"choices":[{"index":0,"delta":{"content":"Hi"}}]}`) + goodEnd), Want: Want{Text: "Hi"}},
		{Name: "choices null, delta null", Answers: stream(data(`{"choices":null}`) + data(`{"choices":[{"index":0,"delta":null}]}`) + text("Hi") + goodEnd), Want: Want{Text: "Hi"}},
		{Name: "first event is an error", Answers: []Answer{{Parts: []any{err503}}, {Parts: []any{text("Hi") + goodEnd}}}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "error after text", Answers: stream(text("Hi") + err503), Want: Want{Kind: model.ErrStream, Status: 503, Emitted: true, Message: "upstream is down"}},
		{Name: "error object of vLLM", Answers: stream(data(`{"object":"error","message":"bad request","type":"BadRequestError","code":400}`)), Want: Want{Kind: model.ErrStream, Status: 400, Message: "bad request"}},
		{Name: "error as a string in a chunk", Answers: stream(data(`{"error":"it broke"}`)), Want: Want{Kind: model.ErrStream, Message: "it broke"}},
		{Name: "finish reason error", Answers: stream(text("Hi") + finish("error") + done), Want: Want{Kind: model.ErrStream, Emitted: true}},
		{Name: "refusal", Answers: stream(data(`{"choices":[{"index":0,"delta":{"content":null,"refusal":"I cannot."}}]}`) + goodEnd), Want: Want{Text: "I cannot.", Finish: model.FinishRefusal}},
		{Name: "content filter", Answers: stream(text("Hi") + finish("content_filter") + done), Want: Want{Text: "Hi", Finish: model.FinishFilter}},
		{Name: "reasoning_content", Answers: stream(data(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`) + text("Hi") + goodEnd), Want: Want{Text: "Hi", Reasoned: true}},
		{Name: "reasoning and details", Answers: stream(data(`{"choices":[{"index":0,"delta":{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}}]}`) + text("Hi") + goodEnd), Want: Want{Text: "Hi", Reasoned: true}},
	}
}
