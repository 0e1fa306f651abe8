// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// HelperConfig is the configuration of a Helper.
type HelperConfig struct {
	Backend string // the configured name of the backend, for errors
	URL     string // of the backend

	Command []string      // the program and its arguments
	Env     []string      // as in client.Command
	Every   time.Duration // how long the headers are used at most; 0 is DefaultEvery, and negative no limit

	// Logger may be nil.
	Logger *slog.Logger

	// Tried, if not nil, is called after each run of the program, with its error. It must not block.
	Tried func(error)
}

// DefaultEvery is the default of HelperConfig.Every.
const DefaultEvery = 10 * time.Minute

// Limits of a helper.
const (
	helperTimeout = 10 * time.Second
	maxOutput     = 64 << 10
	unlimited     = 100 * 365 * 24 * time.Hour
)

// Helper is a client.Credentials with the headers that a program prints. It is the same for all
// principals. The caller must close it.
//
// The program prints a JSON object, for example
// {"headers": {"Authorization": "Bearer abc"}, "expires": "2026-11-26T10:00:00Z"}, within ten
// seconds. It is run again after Every, shortly before the time in expires, and after a 401.
type Helper struct {
	*attempts
	cfg     HelperConfig
	origin  string
	timeout time.Duration // of a run
	cache   *Cache[map[string]mcp.Token]
}

// NewHelper returns the Credentials of a backend. It runs nothing. The error is about the URL.
func NewHelper(cfg HelperConfig) (*Helper, error) {
	origin, err := client.OriginOf(cfg.URL)
	if err != nil {
		return nil, err
	}
	if len(cfg.Command) == 0 {
		return nil, errors.New("the helper has no command")
	}
	if cfg.Every = cmp.Or(cfg.Every, DefaultEvery); cfg.Every < 0 {
		cfg.Every = unlimited
	}
	return &Helper{
		attempts: newAttempts(cfg.Backend, cfg.Logger, cfg.Tried), cfg: cfg, origin: origin,
		timeout: helperTimeout, cache: NewCache[map[string]mcp.Token](),
	}, nil
}

// Close ends the program.
func (h *Helper) Close() { h.cache.Close() }

// Retry makes the next request run the program at once, whatever has failed before.
func (h *Helper) Retry() { h.cache.Retry() }

// PerPrincipal reports false.
func (h *Helper) PerPrincipal() bool { return false }

// For returns the headers.
func (h *Helper) For(ctx context.Context, _ *mcp.Request) (client.Credential, error) {
	kept, err := h.cache.Get(ctx, Key{Backend: h.cfg.Backend}, h.run)
	if err != nil {
		return client.Credential{}, h.failure(err)
	}
	return client.Credential{Header: kept.Value, Origin: h.origin, Generation: kept.Generation}, nil
}

// Refused runs the program again after a 401.
func (h *Helper) Refused(ctx context.Context, _ *mcp.Request, sent client.Credential, r client.Refusal) error {
	if r.Status != http.StatusUnauthorized {
		return client.ErrRefused
	}
	_, err := h.cache.Renew(ctx, Key{Backend: h.cfg.Backend}, sent.Generation, h.run)
	switch {
	case errors.Is(err, ErrJustRenewed):
		return &Error{fmt.Sprintf("it refuses the headers that headersHelper of %s prints (HTTP status 401)", configpath.Server(h.cfg.Backend)), nil}
	case err != nil:
		return h.failure(err)
	}
	return nil
}

// failure returns the error of a request without headers. What a program has printed is not in
// it: it may be a credential.
func (h *Helper) failure(err error) error {
	of, ok := errors.AsType[*helperError](err)
	if !ok {
		return err // of the request that waits
	}
	return &Error{fmt.Sprintf("%s; correct headersHelper of %s", of.text, configpath.Server(h.cfg.Backend)), err}
}

// helperError is the failure of a run.
type helperError struct{ text string }

func (e *helperError) Error() string { return e.text }

func failed(format string, args ...any) error {
	return &helperError{"its headersHelper " + fmt.Sprintf(format, args...)}
}

// run runs the program, and records the attempt.
func (h *Helper) run(ctx context.Context) (map[string]mcp.Token, time.Time, error) {
	a := Attempt{At: time.Now()}
	headers, expires, err := h.output(ctx)
	a.Until, a.Err = expires, err
	if err != nil {
		h.log.WarnContext(ctx, "no headers for a backend", slog.String("backend", h.cfg.Backend), slog.Any("error", err))
	}
	h.add(a)
	return headers, expires, err
}

// output returns what the program prints.
func (h *Helper) output(ctx context.Context) (map[string]mcp.Token, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, h.cfg.Command[0], h.cfg.Command[1:]...) //nolint:gosec // the operator's program
	cmd.Env = client.Environ(h.cfg.Env)
	cmd.WaitDelay = time.Second // what it has started may keep its output open
	killGroup(cmd)
	out := &boundedBuffer{full: cancel}
	cmd.Stdout = out
	err := cmd.Run()
	if err := h.reason(ctx, err, out.text.Len()); err != nil {
		return nil, time.Time{}, err
	}
	headers, expires, problem := parseOutput(out.text.Bytes())
	if problem != "" {
		return nil, time.Time{}, failed("%s", problem)
	}
	until := began.Add(h.cfg.Every)
	if !expires.IsZero() && expires.Before(until) {
		until = expires
	}
	return headers, until, nil
}

// reason returns the error of a run that ended with err after so many bytes.
func (h *Helper) reason(ctx context.Context, err error, printed int) error {
	exit, isExit := errors.AsType[*exec.ExitError](err)
	switch {
	case printed > maxOutput:
		return failed("printed more than 64 KiB")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed("did not end within %v", h.timeout)
	case ctx.Err() != nil:
		return ctx.Err()
	case isExit && exit.Exited():
		return failed("ended with the exit status %d", exit.ExitCode())
	case isExit:
		return failed("was killed")
	case err != nil:
		return failed("could not be started: %v", err)
	}
	return nil
}

// parseOutput parses what a program has printed, or returns why it cannot be used.
func parseOutput(text []byte) (headers map[string]mcp.Token, expires time.Time, problem string) {
	var printed struct {
		Headers map[string]string `json:"headers"`
		Expires time.Time         `json:"expires"`
	}
	if err := json.Unmarshal(text, &printed); err != nil { // the error may contain a part of the text
		return nil, time.Time{}, `printed no object such as {"headers": {"NAME": "VALUE"}, "expires": "2026-11-26T10:00:00Z"}`
	}
	headers = make(map[string]mcp.Token, len(printed.Headers))
	for name, value := range printed.Headers {
		name = http.CanonicalHeaderKey(name)
		if client.CheckCredentialField(name) != nil { // the name may be a credential, printed in the wrong place
			return nil, time.Time{}, "printed a header that is set by the gateway, or that has no valid name"
		}
		if _, twice := headers[name]; twice {
			return nil, time.Time{}, fmt.Sprintf("printed the header %s twice", name)
		}
		headers[name] = mcp.NewToken(value)
	}
	return headers, printed.Expires, ""
}

// boundedBuffer is a buffer of maxOutput+1 bytes, which then calls full. The buffer is a field,
// because its method ReadFrom knows no bound.
type boundedBuffer struct {
	text bytes.Buffer
	full func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if room := maxOutput + 1 - b.text.Len(); len(p) > room {
		_, _ = b.text.Write(p[:room]) // never fails
		b.full()
		return room, io.ErrShortWrite
	}
	return b.text.Write(p)
}
