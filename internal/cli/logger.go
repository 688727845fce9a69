package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// logger gives the program's own log: nowhere, to stderr with --debug, to a file with --log-file.
// It never carries keys or the text of models and tools.
func (f *Factory) logger() (*slog.Logger, error) {
	var w io.Writer
	switch {
	case f.Globals.LogFile != "":
		file, err := os.OpenFile(f.Globals.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open log file: %w", err)
		}
		w = file // open until the process ends
	case f.Globals.Debug:
		w = f.IO.Err
	default:
		return slog.New(slog.DiscardHandler), nil
	}
	level := slog.LevelInfo
	if f.Globals.Debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}
