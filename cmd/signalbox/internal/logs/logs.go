// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs writes the log of a gateway, and reads it: the loggers of serve, the rules
// for what is kept for later, and the command logs.
//
// The log of a gateway with a file is kept twice, in memory for commands that ask its
// socket and, without a terminal, in files of the state folder for the time after its end.
package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/journal"
)

type logsFlags struct {
	config string
	follow bool
	level  string // the lowest that is printed
	call   string // the id of a call; empty means all
	json   bool   // print the records as they are kept
}

// New returns the command that prints the log of a gateway.
func New(e *command.Env) *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of the gateway, or what a server writes to standard error",
		Long: `Print the last records of the log of the running gateway that serves the configuration
file, or if there is none, of the one that ran last. With NAME, print what that server has
written to its standard error, and when its processes started and ended.

The gateway keeps up to 4 MiB of its log in the state folder, and of a gateway that runs on
a terminal, half a MiB in memory. Credentials are removed as from the log itself.`,
		Args: command.ArgsBetween(0, 1, "one NAME of a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return logs(cmd.Context(), e, &f, strings.Join(args, ""))
		},
	}
	source.Flag(cmd, &f.config)
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "continue with later records, also after a restart of the gateway")
	command.AddWord(cmd, &f.level, "level", "", "print records of this `LEVEL` and above: debug, info, warn or error")
	command.AddWord(cmd, &f.call, "call", "", "print the records about the call with this `ID`")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the records as JSON lines")
	return cmd
}

// logs prints the log of a file's gateway.
func logs(ctx context.Context, e *command.Env, f *logsFlags, name string) error {
	printer := &logPrinter{Env: e, server: name, call: f.call, asJSON: f.json, level: slog.LevelDebug}
	if f.level != "" && printer.level.UnmarshalText([]byte(f.level)) != nil {
		return command.Usagef("--level %q is not a level; use debug, info, warn or error", f.level)
	}
	if name != "" && f.level != "" {
		return command.Usagef("both NAME and --level; the standard error of a server has no levels")
	}
	src, err := source.FindFile(e, f.config)
	if err != nil {
		return err
	}
	// The gateway may have an earlier content of a file with a mistake.
	if cfg, err := src.Load(); name != "" && err == nil {
		if _, err := src.Server(cfg, name); err != nil {
			return err
		}
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	err = printLogs(ctx, e, src.Path, f.follow, printer)
	switch {
	case ctx.Err() != nil:
		return nil // interrupted, which is how --follow ends
	case err == nil && !printer.matched:
		e.PrintError("no records match")
	}
	return err
}

// logsInterval is how often logs looks for a gateway.
const logsInterval = 250 * time.Millisecond

// printLogs prints the log of the running gateway of a file, or of the last one that ran. With
// follow, it continues with the gateways that run later, until ctx ends.
func printLogs(ctx context.Context, e *command.Env, file string, follow bool, p *logPrinter) error {
	gateways, err := control.Running(ctx, e, file)
	switch {
	case len(gateways) > 0:
		err = printRunning(ctx, e, gateways, follow, p)
		control.CloseIdle(gateways)
	case err == nil:
		err = printEnded(ctx, e, file, p)
		if follow {
			err = nil // a gateway may start
		}
	}
	if err != nil || !follow {
		return err
	}
	return followLater(ctx, e, file, p)
}

// followLater prints the logs of the gateways that run from now on.
func followLater(ctx context.Context, e *command.Env, file string, p *logPrinter) error {
	waiting := false
	for {
		gateways, _ := control.Running(ctx, e, file) // one that does not respond may do so later
		if len(gateways) > 0 {
			waiting = false
			err := printRunning(ctx, e, gateways, true, p)
			control.CloseIdle(gateways)
			if err != nil {
				return err
			}
		} else if !waiting && ctx.Err() == nil {
			waiting = true
			e.PrintError("no gateway is running; waiting for one")
		}
		select {
		case <-time.After(logsInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// printEnded prints the log of the gateway that ran last.
func printEnded(ctx context.Context, e *command.Env, file string, p *logPrinter) error {
	state, err := source.StateFolder(e, file)
	if err != nil {
		return err
	}
	saved := journal.List(filepath.Join(state, Folder))
	if len(saved) == 0 {
		return fmt.Errorf("no gateway of this user serves %s, and none has left a log; one that runs on a terminal leaves none", file)
	}
	r, w := io.Pipe()
	// Ends with the files, or when the reader is closed; waited for by the read.
	go func() { w.CloseWithError(saved[0].Copy(w)) }()
	defer r.Close()
	return p.print(ctx, r)
}

// printRunning prints the log of the first of the running gateways.
func printRunning(ctx context.Context, e *command.Env, gateways []control.Gateway, follow bool, p *logPrinter) error {
	gateway := gateways[0]
	if p.process != gateway.Process {
		if more := len(gateways) - 1; more > 0 {
			e.PrintError(fmt.Sprintf("%s running; showing the log of process %d", output.Plural(more, "more gateway"), gateway.Process))
		} else if p.process != 0 {
			e.PrintError(fmt.Sprintf("continuing with the log of process %d", gateway.Process))
		}
		p.process, p.last = gateway.Process, time.Time{}
	}
	address := control.URL(control.LogPath)
	if follow {
		address += "?follow=true"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := gateway.Socket.RoundTrip(req)
	switch {
	case err != nil && follow:
		return nil // it may be ending
	case err != nil:
		return fmt.Errorf("log of process %d: %w", gateway.Process, control.ExplainDial(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("log of process %d: HTTP status %d; it may be another version of Signalbox", gateway.Process, resp.StatusCode)
	}
	err = p.print(ctx, resp.Body)
	if _, ok := errors.AsType[printError](err); !ok && follow {
		return nil // the end of the gateway, or of the connection
	}
	return err
}

// logPrinter prints the records of a log that match.
type logPrinter struct {
	*command.Env

	server  string // print the standard error of this one
	call    string // print the records of this call
	level   slog.Level
	asJSON  bool
	matched bool      // a record was printed
	process int       // of the gateway
	last    time.Time // of the last record of that gateway, to continue after a lost connection
}

// maxLogRecord bounds a record that is read. The largest ones have an error with the text of
// a server.
const maxLogRecord = 16 << 20

// printError is an error of the output.
type printError struct{ error }

func (e printError) Unwrap() error { return e.error }

// print prints the records of a log, but for those that were printed before.
func (p *logPrinter) print(ctx context.Context, log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLogRecord)
	printed := p.last
	for lines.Scan() {
		r, err := parseLogRecord(lines.Bytes())
		if err != nil || !r.Time.After(printed) {
			continue // an invalid one is the half that a full disk has left
		}
		p.last = r.Time
		if !p.matches(r) {
			continue
		}
		p.matched = true
		if err := p.printRecord(ctx, r, lines.Bytes()); err != nil {
			return printError{err}
		}
	}
	return lines.Err()
}

func (p *logPrinter) matches(r *logRecord) bool {
	return r.Level >= p.level &&
		(p.call == "" || r.attr("call") == p.call) &&
		(p.server == "" || r.attr("backend") == p.server && r.isOfProcess())
}

// printRecord prints a record. line is its text.
func (p *logPrinter) printRecord(ctx context.Context, r *logRecord, line []byte) error {
	switch {
	case p.asJSON:
		return p.PrintJSON(line)
	case p.server != "":
		return p.PrintText(p.Stdout, r.ofProcess()+"\n")
	}
	var text bytes.Buffer
	if err := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r.Record); err != nil {
		return err
	}
	return p.PrintText(p.Stdout, text.String())
}

// logRecord is a record of a log.
type logRecord struct{ slog.Record }

// parseLogRecord parses a record that a slog.JSONHandler has written.
func parseLogRecord(line []byte) (*logRecord, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	r := new(logRecord)
	return r, r.members(dec, "")
}

// members reads an object. Those of a group have its name before their own.
func (r *logRecord) members(dec *jsontext.Decoder, group string) error {
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errors.New("not an object"), err)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := group + name.String()
		if dec.PeekKind() == '{' {
			if err := r.members(dec, key+"."); err != nil {
				return err
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := r.set(key, value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// set sets a part of the record.
func (r *logRecord) set(key string, value jsontext.Value) error {
	text := string(value) // of a number, a list or a word
	if value.Kind() == '"' {
		if err := control.Decode(value, &text); err != nil {
			return err
		}
	}
	var err error
	switch key {
	case slog.TimeKey:
		r.Time, err = time.Parse(time.RFC3339Nano, text)
	case slog.LevelKey:
		err = r.Level.UnmarshalText([]byte(text))
	case slog.MessageKey:
		r.Message = text
	default:
		r.AddAttrs(slog.String(key, text))
	}
	return err
}

// attr returns the value of an attribute, or "".
func (r *logRecord) attr(key string) string {
	value := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value.String()
		}
		return true
	})
	return value
}

func (r *logRecord) isOfProcess() bool {
	switch r.Message {
	case stderrMessage, skippedMessage, startedMessage, endedMessage:
		return true
	default:
		return false
	}
}

// ofProcess returns a line of standard error as the server has written it, or in parentheses
// what happened to its process, with the local time.
func (r *logRecord) ofProcess() string {
	text := ""
	switch r.Message {
	case stderrMessage:
		text = r.attr("line")
		if cut, err := strconv.Atoi(r.attr("cut")); err == nil {
			text += fmt.Sprintf(" (%d more bytes)", cut)
		}
	case skippedMessage:
		text = fmt.Sprintf("(%s lines were not kept)", r.attr("count"))
	case startedMessage:
		text = fmt.Sprintf("(process %s started)", r.attr("pid"))
	case endedMessage:
		text = "(the process ended: " + r.attr("status")
		if reason := r.attr("reason"); reason != "" {
			text += "; " + reason
		}
		text += ")"
	}
	return r.Time.Local().Format("2006-01-02 15:04:05.000") + "  " + text
}
