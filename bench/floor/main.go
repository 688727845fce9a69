// Command floor is the least that an agent runner can do: it posts the request, forks bash for
// each tool call and appends the result. Benchmarks print it beside rivumi, so that a figure is a
// ratio of two programs measured in one run. It streams, as rivumi does, and keeps nothing.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("floor")
		return
	}
	history := []message{{Role: "user", Content: "work"}}
	for {
		answer, err := ask(os.Args[1], history)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		history = append(history, answer)
		if len(answer.ToolCalls) == 0 {
			return
		}
		for _, c := range answer.ToolCalls {
			var args struct{ Command string }
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			out, _ := exec.Command("bash", "-c", args.Command).CombinedOutput()
			if len(out) > 16<<10 {
				out = append(out[:6<<10:6<<10], out[len(out)-10<<10:]...)
			}
			history = append(history, message{Role: "tool", Content: string(out), ToolCallID: c.ID})
		}
	}
}

// ask posts the history and joins the streamed answer.
func ask(url string, history []message) (message, error) {
	body, err := json.Marshal(map[string]any{"model": "mock", "stream": true, "messages": history})
	if err != nil {
		return message{}, err
	}
	resp, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	answer := message{Role: "assistant"}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta message } `json:"choices"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return message{}, err
		}
		for _, c := range chunk.Choices {
			answer.Content += c.Delta.Content
			if c.Delta.Content != "" {
				fmt.Print(c.Delta.Content)
			}
			answer.ToolCalls = append(answer.ToolCalls, c.Delta.ToolCalls...)
		}
	}
	return answer, lines.Err()
}
