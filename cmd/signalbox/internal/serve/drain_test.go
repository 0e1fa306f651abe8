// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestHardDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                 string
		delay, timeout, want time.Duration
	}{
		{"the default beyond loopback", 5 * time.Second, time.Minute, 79 * time.Second},
		{"on a laptop", -1, time.Minute, 74 * time.Second},
		{"nothing is waited for", 0, 0, 14 * time.Second},
		{"calls take as long as they like", 5 * time.Second, -1, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := hardDeadline(tt.delay, tt.timeout); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRunWithin(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		takes    time.Duration
		err      error
		want     error
		after    time.Duration
	}{
		{"in time", time.Minute, time.Second, nil, nil, time.Second},
		{"an error in time", time.Minute, time.Second, broken, broken, time.Second},
		{"late", time.Minute, time.Hour, nil, errHardDeadline, time.Minute},
		{"no deadline", -1, time.Hour, broken, broken, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := runWithin(tt.deadline, func() error {
					time.Sleep(tt.takes)
					return tt.err
				})
				if got := time.Since(start); !errors.Is(err, tt.want) || got != tt.after {
					t.Errorf("got %v after %v, want %v after %v", err, got, tt.want, tt.after)
				}
				time.Sleep(tt.takes) // ends the late function
			})
		})
	}
}

// draining returns a service without a listener, with the backend h.
func draining(t *testing.T, h mcp.Handler, d config.Config) (*service, *commandtest.Env) {
	t.Helper()
	e := commandtest.New(t, "")
	logger := slog.New(slog.NewTextHandler(e.Err, nil))
	own := ""
	gw, err := signalbox.New(d, signalbox.Options{
		Logger:    logger,
		InProcess: []signalbox.InProcess{{Name: "b", Prefix: &own, Handler: h}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &service{Env: e.Env, cfg: &d, log: logger, gateway: gw}, e
}

func idle() mcp.Handler {
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	})
}

// A second signal cancels the delay for load balancers. No call was running, so none is
// reported as canceled.
func TestSecondSignalCutsTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cfg config.Config
		cfg.Drain.Delay = time.Hour
		s, e := draining(t, idle(), cfg)
		signals := make(chan os.Signal, 3)
		released := make(chan struct{})
		time.AfterFunc(time.Minute, func() { signals <- syscall.SIGTERM })
		start := time.Now()
		if err := s.drain(t.Context(), signals, func() { close(released) }); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got < time.Minute || got > 2*time.Minute {
			t.Errorf("it ended after %v, want a minute", got)
		}
		<-released // so that a third signal ends the process
		said := e.Err.String()
		if !strings.Contains(said, "running=0 delay=1h0m0s timeout=1m0s deadline=1h1m14s") {
			t.Errorf("the deadlines were not said: %s", said)
		}
		if strings.Contains(said, "was cut") {
			t.Errorf("nothing was running, and it said: %s", said)
		}
	})
}

// SIGHUP asks for a reload, which is too late during a drain, and must not cancel it.
func TestHangupDoesNotCutTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		signals := make(chan os.Signal, 3)
		cut := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cutOnSignal(ctx, signals, func() { close(cut) })
		}()
		signals <- syscall.SIGHUP
		synctest.Wait()
		select {
		case <-cut:
			t.Fatal("SIGHUP cut the drain")
		default:
		}
		signals <- os.Interrupt
		<-cut
		<-ended
		cancel()
		cutOnSignal(ctx, signals, func() { t.Error("cut after the end") })
	})
}

// Without a limit for running calls, no deadline is logged.
func TestDrainWithoutLimitPromisesNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cfg config.Config
		cfg.Drain.Delay, cfg.Drain.Timeout = -1, -1
		s, e := draining(t, idle(), cfg)
		if err := s.drain(t.Context(), make(chan os.Signal), func() {}); err != nil {
			t.Error(err)
		}
		if said := e.Err.String(); !strings.Contains(said, "running=0 delay=none timeout=none deadline=none") {
			t.Errorf("said %s", said)
		}
	})
}

// A signal that cancels the drain cancels the end of idle backends. As no call was canceled,
// nothing is logged.
func TestNothingIsCutWhereNothingRan(t *testing.T) {
	t.Parallel()
	var cfg config.Config
	cfg.Drain.Delay = time.Hour
	for name := range strings.SplitSeq("acdefghijklmnop", "") { // b is in this process
		cfg.Servers = append(cfg.Servers, config.Backend{Name: name, URL: "http://127.0.0.1:1/mcp"})
	}
	s, e := draining(t, idle(), cfg)
	signals := make(chan os.Signal, 3)
	signals <- syscall.SIGTERM // before the delay begins
	if err := s.drain(t.Context(), signals, func() {}); err != nil {
		t.Error(err)
	}
	if said := e.Err.String(); strings.Contains(said, "was cut") {
		t.Errorf("nothing was running, and it said: %s", said)
	}
}

const calling = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}` + "\n"

// slow is a backend with a tool that takes an hour, and sends on begun when it starts.
func slow(begun chan<- struct{}) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(commandtest.Discovery))
		case "tools/list":
			return mcp.NewResult([]byte(`{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}`))
		case "tools/call":
			begun <- struct{}{}
			select {
			case <-time.After(time.Hour):
				return mcp.NewResult([]byte(`{"content":[]}`))
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	})
}

// A running call has the configured time. Then it is canceled, and its client receives an
// error with outcome unknown (DELIVERY, "Graceful drain"). A second signal cancels it
// immediately.
func TestRunningCallAndTheDrain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		signal  time.Duration // the time of the second signal; 0 means never
		after   time.Duration
		answer  string
		cut     bool
	}{
		{"it ends in time", 2 * time.Hour, 0, time.Hour, `"result":{`, false},
		{"it has all the time", -1, 0, time.Hour, `"result":{`, false},
		{"it takes too long", time.Minute, 0, time.Minute, `"outcome":"unknown"`, true},
		{"a second signal", time.Minute, time.Second, time.Second, `"outcome":"unknown"`, true},
		{"a second signal without a limit", -1, time.Second, time.Second, `"outcome":"unknown"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { drainDuringCall(t, tt.timeout, tt.signal, tt.after, tt.answer, tt.cut) })
		})
	}
}

func drainDuringCall(t *testing.T, timeout, signal, after time.Duration, wantAnswer string, wantCut bool) {
	var cfg config.Config
	cfg.Drain.Delay, cfg.Drain.Spread, cfg.Drain.Timeout = -1, -1, timeout
	cfg.Limits.CallIdle, cfg.Limits.CallMax = -1, -1
	begun := make(chan struct{}, 1)
	s, e := draining(t, slow(begun), cfg)
	stdin, say := io.Pipe()
	hear, stdout := io.Pipe()
	s.flags.stdio, s.stdio = true, make(chan error, 1)
	s.input, s.Stdout = &input{Reader: stdin}, stdout
	go s.serveStdio(t.Context())
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(hear).ReadString('\n')
		answers <- line
	}()
	if _, err := io.WriteString(say, calling); err != nil {
		t.Fatal(err)
	}
	<-begun

	signals := make(chan os.Signal, 3)
	if signal > 0 {
		time.AfterFunc(signal, func() { signals <- os.Interrupt })
	}
	start := time.Now()
	if err := s.drain(t.Context(), signals, func() {}); err != nil {
		t.Error(err)
	}
	if got := time.Since(start); got < after || got > after+10*time.Second {
		t.Errorf("it ended after %v, want %v", got, after)
	}
	if got := <-answers; !strings.Contains(got, wantAnswer) {
		t.Errorf("the client was told %q, want %q", got, wantAnswer)
	}
	said := e.Err.String()
	if !strings.Contains(said, "running=1 ") {
		t.Errorf("the drain began with %q, want one running", said)
	}
	if got := strings.Contains(said, "running calls were canceled at the deadline"); got != wantCut {
		t.Errorf("it was cut: %v, want %v: %s", got, wantCut, said)
	}
	say.Close()
	hear.Close()
}
