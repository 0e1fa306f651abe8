// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
)

// defaultLocalDrain drops the default delay and spread of a drain, which serve load
// balancers, if only this machine can reach the gateway. It then stops as soon as the
// running calls have ended.
func defaultLocalDrain(cfg *config.Config, http bool) {
	if http && !source.IsLocal(cfg.Effective().Listen) {
		return
	}
	// Zero means that the file does not have the key. Configured values are kept.
	if cfg.Drain.Delay == 0 {
		cfg.Drain.Delay = -1
	}
	if cfg.Drain.Spread == 0 {
		cfg.Drain.Spread = -1
	}
}

// backendsEnd bounds how long the backends take to end after the last call: a process has
// 5 s after its input was closed and 5 s after SIGTERM (2026-07-28,
// basic/transports/stdio, "Shutdown"), and is then killed.
const backendsEnd = 12 * time.Second

// hardDeadline returns how long the whole shutdown takes at most, or -1 if the
// configuration does not limit running calls.
func hardDeadline(delay, timeout time.Duration) time.Duration {
	if timeout < 0 {
		return -1
	}
	return max(delay, 0) + timeout + backendsEnd + closeTimeout
}

// drain shuts the service down in order: it reports not ready and rejects new sessions,
// waits the delay for load balancers, lets the running calls end, and ends the backends.
// The next signal cancels what is left of that, and calls release, which restores the
// default handling of signals: one more ends the process.
//
// The shutdown has one deadline, which is logged at its start, so that the sender of the
// signal knows after which time to send a stronger one.
func (s *service) drain(ctx context.Context, signals <-chan os.Signal, release func()) error {
	d := s.cfg.Effective().Drain
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	// Ends with ctx, which ends with drain.
	go cutOnSignal(ctx, signals, func() { cut(); release() })

	if d := s.eofGrace(); d >= 0 {
		defer time.AfterFunc(d, cut).Stop()
	}

	// First, so that a load balancer that asks in the meantime learns of it.
	s.gateway.Drain()
	hard := hardDeadline(d.Delay, d.Timeout)
	s.log.InfoContext(ctx, "shutting down; a second signal stops at once",
		slog.Int("running", s.gateway.Status().InFlight), durationOrNone("delay", d.Delay), durationOrNone("timeout", d.Timeout), durationOrNone("deadline", hard))
	return runWithin(hard, func() error { return s.end(ctx, d.Delay, d.Timeout) })
}

// durationOrNone returns a log attribute. A negative duration means no limit.
func durationOrNone(key string, d time.Duration) slog.Attr {
	if d < 0 {
		return slog.String(key, "none")
	}
	return slog.Duration(key, d)
}

var errHardDeadline = errors.New("the shutdown did not complete within its deadline; what is left ends with this process")

// runWithin calls end, and returns errHardDeadline if it takes longer than d. A negative d
// is no limit.
func runWithin(d time.Duration, end func() error) error {
	if d < 0 {
		return end()
	}
	ended := make(chan error, 1)
	// Ends with end, which has limits of its own. After the deadline it ends with the
	// process.
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(d):
		return errHardDeadline
	}
}

// end shuts the parts down in order: the gateway before the server of its connections, as
// it sends a last message on each of them.
func (s *service) end(ctx context.Context, delay, timeout time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
	err := s.shutdown(ctx, timeout)
	if s.flags.stdio {
		<-s.stdio // if it ended only now, the shutdown is the reason
	}
	s.http.close(ctx)
	return err
}

// shutdown ends the gateway. Calls that were canceled by the timeout receive an error and
// are logged; they are no failure of the command.
func (s *service) shutdown(ctx context.Context, timeout time.Duration) error {
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// The running calls are counted before they are canceled, as they are gone after it.
	patience, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var running atomic.Int64
	stop := context.AfterFunc(ctx, func() {
		running.Store(int64(s.gateway.Status().InFlight))
		cut()
	})
	defer stop()
	err := s.gateway.Shutdown(patience)
	s.pages.close()
	switch {
	case err == nil:
		return nil
	case patience.Err() == nil:
		return fmt.Errorf("shut down: %w", err)
	}
	if n := running.Load(); n > 0 {
		s.log.WarnContext(ctx, "running calls were canceled at the deadline; their clients receive an error that the call may have run", slog.Int64("running", n))
	}
	return nil
}

// cutOnSignal calls cut on the next signal other than SIGHUP, unless ctx ends first.
func cutOnSignal(ctx context.Context, signals <-chan os.Signal, cut func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				cut()
				return
			}
		}
	}
}

// input is the standard input of serve. It records when the input ended.
type input struct {
	io.Reader
	ended atomic.Pointer[time.Time] // nil until then
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		now := time.Now()
		in.ended.CompareAndSwap(nil, &now)
	}
	return n, err
}

// Close closes the Reader, if it can be closed.
func (in *input) Close() error {
	if c, ok := in.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// exitAfterEOF is the time after the end of the input at which running calls are canceled.
// Clients kill a server that is still running after 2 s, or 4 s.
const exitAfterEOF = time.Second

// eofGrace returns how long the shutdown may take before running calls are canceled: if the
// only client has closed the input, until exitAfterEOF, or no time at all after a signal. A
// negative duration is no limit.
func (s *service) eofGrace() time.Duration {
	if s.http != nil || s.input == nil {
		return -1
	}
	ended := s.input.ended.Load()
	switch {
	case ended == nil:
		return -1
	case s.signalled:
		return 0
	default:
		return max(0, exitAfterEOF-time.Since(*ended))
	}
}
