// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/config"
)

// newLogger returns the logger of a configuration.
func newLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	form := cfg.Effective().Log
	// No source and no stack: a record is for the operator of the gateway, and its
	// attributes name what it is about.
	opt := &slog.HandlerOptions{Level: logLevel(form.Level)}
	if form.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// logLevel returns the level of a word of the configuration.
func logLevel(word string) slog.Level {
	var level slog.Level // info
	if err := level.UnmarshalText([]byte(word)); err != nil {
		return slog.LevelInfo
	}
	return level
}
