package modeltest

import (
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

const (
	chatDocument = `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	webPage      = "<!DOCTYPE html><html><head><title>Gateway</title><style>p{}</style></head><body><h1>Sign in</h1></body></html>"
)

func chatDocuments() []Case {
	calls := `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls -l\"}"}}]},"finish_reason":"tool_calls"}]}`
	return []Case{
		{Name: "full JSON answer", Answers: document(200, chatDocument), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "full JSON answer with a call", Answers: document(200, calls), Want: Want{Calls: []string{callA}, Finish: model.FinishCalls, Unknown: true}},
		{Name: "full JSON answer cut by length", Answers: document(200, strings.Replace(calls, `"tool_calls"}`, `"length"}`, 1)), Want: Want{Calls: []string{"bash BAD"}, Finish: model.FinishLength}},
		{Name: "full JSON answer as an event stream", Answers: stream(chatDocument), Want: Want{Text: "Hi", In: 11, Out: 7}},
		{Name: "MD-05 choices empty", Answers: document(200, `{"choices":[]}`), Want: Want{Kind: model.ErrEmpty, Attempts: 3}},
		{Name: "MD-11 error object in a 200", Answers: document(200, `{"error":{"message":"no instance","code":503}}`), Want: Want{Kind: model.ErrStatus, Status: 503, Message: "no instance", Attempts: 3}},
		{Name: "MD-11 error object in a 200, final", Answers: document(200, `{"error":{"message":"no such model","code":404}}`), Want: Want{Kind: model.ErrStatus, Status: 404}},
		{Name: "error object in an event stream body", Answers: stream(`{"error":{"message":"no such model","code":404}}`), Want: Want{Kind: model.ErrStatus, Status: 404}},
		{Name: "wrong path of LM Studio", Answers: document(200, `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`), Want: Want{Kind: model.ErrStatus, Message: "/v1"}},
		{Name: "JSON of something else", Answers: document(200, `{"status":"ok"}`), Want: Want{Kind: model.ErrProtocol}},
		{Name: "MD-11 body shorter than its length", Answers: []Answer{{Type: "application/json", Length: 5000, Parts: []any{chatDocument[:60]}}}, Want: Want{Kind: model.ErrTruncated, Attempts: 3}},
		{Name: "JSON cut, clean end", Answers: document(200, chatDocument[:60]), Want: Want{Kind: model.ErrTruncated, Attempts: 3}},
		{Name: "MD-11 HTML in a 200", Answers: []Answer{{Type: "text/html", Parts: []any{webPage}}}, Want: Want{Kind: model.ErrProtocol, Message: "Sign in"}},
		{Name: "HTML as an event stream", Answers: stream(webPage), Want: Want{Kind: model.ErrProtocol, Message: "Sign in"}},
	}
}

func chatStatuses() []Case {
	hi := Answer{Parts: []any{text("Hi") + goodEnd}}
	status := func(code int, body string, header ...string) Answer {
		a := Answer{Status: code, Type: "application/json", Parts: []any{body}, Header: map[string]string{}}
		for i := 0; i+1 < len(header); i += 2 {
			a.Header[header[i]] = header[i+1]
		}
		return a
	}
	once := func(code int, body string, header ...string) []Answer {
		return []Answer{status(code, body, header...)}
	}
	return []Case{
		{Name: "error body is a string", Answers: once(400, `{"error":"model not loaded"}`), Want: Want{Kind: model.ErrStatus, Status: 400, Message: "model not loaded"}},
		{Name: "error body is a list", Answers: once(400, `[{"error":{"code":400,"message":"bad key","status":"INVALID_ARGUMENT"}}]`), Want: Want{Kind: model.ErrStatus, Status: 400, Message: "bad key"}},
		{Name: "error body is text", Answers: []Answer{{Status: 400, Type: "text/plain", Parts: []any{"no\x1b[31m way"}}}, Want: Want{Kind: model.ErrStatus, Message: `no\x1b[31m way`}},
		{Name: "error body is empty", Answers: once(404, ""), Want: Want{Kind: model.ErrStatus, Status: 404, Message: "Not Found"}},
		{Name: "MD-11 401 that echoes the key", Answers: once(401, `{"error":{"message":"Incorrect API key provided: `+Key+`","code":"invalid_api_key"}}`), Want: Want{Kind: model.ErrStatus, Status: 401, Message: "[redacted:key]"}},
		{Name: "402", Answers: once(402, `{"error":{"message":"pay"}}`), Want: Want{Kind: model.ErrStatus, Status: 402}},
		{Name: "403", Answers: once(403, `{"error":{"message":"no"}}`), Want: Want{Kind: model.ErrStatus, Status: 403}},
		{Name: "422", Answers: once(422, `{"detail":[{"msg":"field required"}]}`), Want: Want{Kind: model.ErrStatus, Status: 422, Message: "field required"}},
		{Name: "413", Answers: once(413, `{"error":{"message":"too much"}}`), Want: Want{Kind: model.ErrStatus, Status: 413}},
		{Name: "MD-11 400 with 1 MB", Answers: once(400, `{"error":{"message":"`+strings.Repeat("long ", 200_000)+`"}}`), Want: Want{Kind: model.ErrStatus, Status: 400}},
		{Name: "MD-11 502 with 200 KB of HTML", Answers: []Answer{{Status: 502, Type: "text/html", Parts: []any{webPage + strings.Repeat("<p>x</p>", 25_000)}}}, Want: Want{Kind: model.ErrStatus, Status: 502, Message: "Sign in", Attempts: 3}},
		{Name: "429, then fine", Answers: []Answer{status(429, `{"error":{"message":"slow down"}}`), hi}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "429 with a wait in milliseconds", Answers: []Answer{status(429, `{}`, "Retry-After-Ms", "20"), hi}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "429 insufficient_quota", Answers: once(429, `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`), Want: Want{Kind: model.ErrStatus, Status: 429}},
		{Name: "MD-08 Retry-After 3600", Answers: once(429, `{}`, "Retry-After", "3600"), Want: Want{Kind: model.ErrStatus, Status: 429, Message: "asks to wait 1h0m0s"}},
		{Name: "MD-08 Retry-After as a far date", Answers: once(503, `{}`, "Retry-After", "Fri, 31 Dec 2099 23:59:59 GMT"), Want: Want{Kind: model.ErrStatus, Status: 503, Message: "asks to wait"}},
		{Name: "500 three times", Answers: once(500, `{"error":{"message":"oops"}}`), Want: Want{Kind: model.ErrStatus, Status: 500, Attempts: 3}},
		{Name: "529, then fine", Answers: []Answer{status(529, `{}`), hi}, Want: Want{Text: "Hi", Attempts: 2}},
		{Name: "408, 409, then fine", Answers: []Answer{status(408, `{}`), status(409, `{}`), hi}, Want: Want{Text: "Hi", Attempts: 3}},
		{Name: "MD-12 context too long", Answers: once(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`), Want: Want{Kind: model.ErrContext, Status: 400}},
		{Name: "MD-12 context too long, llama.cpp", Answers: once(400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`), Want: Want{Kind: model.ErrContext}},
		{Name: "tool_use_failed of Groq", Answers: once(400, `{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=bash>"}}`), Want: Want{Kind: model.ErrStatus, Message: "<function=bash>", Attempts: 2}},
		{Name: "307 to another origin", Answers: []Answer{{Status: 307, Header: map[string]string{"Location": "OTHER/v1/chat/completions"}}}, Want: Want{Kind: model.ErrStatus, Status: 307, Message: "redirect"}},
	}
}

func chatClocks() []Case {
	return clocks(text("Hi"))
}

// clocks are the cases of silence; they are the same on both wires.
func clocks(hello string) []Case {
	return []Case{
		{Name: "no answer at all", Idle: true, Answers: []Answer{{Parts: []any{time.Minute}}}, Want: Want{Kind: model.ErrIdle, Attempts: 3}},
		{Name: "silence after the head", Idle: true, Answers: []Answer{{Parts: []any{": open\n\n", time.Minute}}}, Want: Want{Kind: model.ErrIdle, Message: "nothing", Attempts: 3}},
		{Name: "silence after text", Idle: true, Answers: []Answer{{Parts: []any{hello, time.Minute}}}, Want: Want{Kind: model.ErrIdle, Emitted: true}},
		{Name: "comments for ever", Idle: true, Answers: []Answer{{Forever: true, Parts: []any{": keep-alive\n\n", 30 * time.Millisecond}}}, Want: Want{Kind: model.ErrIdle, Message: "no part", Attempts: 3}},
		{Name: "slow bytes of one line for ever", Idle: true, Answers: []Answer{{Forever: true, Parts: []any{"d", 30 * time.Millisecond}}}, Want: Want{Kind: model.ErrIdle, Message: "no part", Attempts: 3}},
	}
}
