// Package agent is the loop: it asks the model, judges and runs tool calls, answers each exactly
// once, keeps within limits, and can go on from a log. It knows no HTTP, no store and no git.
package agent
