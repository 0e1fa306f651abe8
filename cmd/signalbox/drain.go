// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox"
)

// localDrain spares a laptop the time that load balancers need: where the
// configuration does not say otherwise, and nobody but this machine can reach the
// gateway, it stops as soon as the running calls have ended.
func localDrain(cfg *signalbox.Config, http bool) {
	if http && !isLocal(cfg.Effective().Listen) {
		return
	}
	// Zero is a key that the file does not have, so that nothing which somebody
	// wrote is overruled.
	if cfg.Drain.Delay == 0 {
		cfg.Drain.Delay = -1
	}
	if cfg.Drain.Spread == 0 {
		cfg.Drain.Spread = -1
	}
}

// isLocal reports whether only this machine reaches an address. A name other
// than localhost is taken for one that others know: looking it up would make the
// answer depend on the network.
func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false // it is told where it is listened on
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// backendsEnd is what the backends may take to end after the last call has: the
// process of one is given 5 s after its input was closed and 5 s after it was
// asked to end (2026-07-28, basic/transports/stdio, "Shutdown"), and is killed.
const backendsEnd = 12 * time.Second

// hardDeadline returns what the whole end takes at most, or -1 where the
// configuration lets running calls take as long as they like.
func hardDeadline(delay, timeout time.Duration) time.Duration {
	if timeout < 0 {
		return -1
	}
	return max(delay, 0) + timeout + backendsEnd + lastWords
}

// drain ends the service in order: it says that it is not ready and takes no new
// sessions, gives load balancers the time to notice, lets the running calls end,
// and ends the backends. One more signal cuts what is left of that. Then release
// lets the signals go, so that the third ends the process.
//
// All of that has one deadline, which is said at the start: whoever sends the
// signal has to know after which time to send a stronger one.
func (s *service) drain(ctx context.Context, signals <-chan os.Signal, release func()) error {
	d := s.cfg.Effective().Drain
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	// Ends with ctx, which ends with drain.
	go cutOnSignal(ctx, signals, func() { cut(); release() })

	if d := s.patience(); d >= 0 {
		defer time.AfterFunc(d, cut).Stop()
	}

	// First of all, so that a load balancer which asks while the rest is said
	// learns it.
	s.gateway.Drain()
	hard := hardDeadline(d.Delay, d.Timeout)
	s.log.InfoContext(ctx, "shutting down; one more signal ends it at once",
		slog.Int("running", s.gateway.Status().InFlight), noneOr("delay", d.Delay), noneOr("timeout", d.Timeout), noneOr("deadline", hard))
	return within(hard, func() error { return s.end(ctx, d.Delay, d.Timeout) })
}

// noneOr is a duration for the log, in which a negative one is no limit.
func noneOr(key string, d time.Duration) slog.Attr {
	if d < 0 {
		return slog.String(key, "none")
	}
	return slog.Duration(key, d)
}

// errHardDeadline is returned where something did not end that has to.
var errHardDeadline = errors.New("not everything ended within the deadline; what is left dies with this process")

// within runs end, and no longer waits for it after the time, if that is not
// negative.
func within(d time.Duration, end func() error) error {
	if d < 0 {
		return end()
	}
	ended := make(chan error, 1)
	// Ends with end, which has bounds of its own; beyond the deadline it ends with
	// the process.
	go func() { ended <- end() }()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return errHardDeadline
	}
}

// end does what drain says, in this order: the gateway ends before the server of
// its connections, because it has a last word for each of them.
func (s *service) end(ctx context.Context, delay, timeout time.Duration) error {
	wait(ctx, delay)
	err := s.shutdown(ctx, timeout)
	if s.flags.stdio {
		<-s.stdio // if it ended only now, it was we who ended it
	}
	s.http.close(ctx)
	return err
}

// shutdown ends the gateway. Calls that had to be cut are told so and logged;
// they are no failure of the command.
func (s *service) shutdown(ctx context.Context, timeout time.Duration) error {
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// What is running is counted before it is cut, because nobody knows it after.
	patience, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var running atomic.Int64
	stop := context.AfterFunc(ctx, func() {
		running.Store(int64(s.gateway.Status().InFlight))
		cut()
	})
	defer stop()
	err := s.gateway.Shutdown(patience)
	switch {
	case err == nil:
		return nil
	case patience.Err() == nil:
		return fmt.Errorf("shut down: %w", err)
	}
	if n := running.Load(); n > 0 {
		s.log.WarnContext(ctx, "what was still running was cut; its clients are told that it may have run", slog.Int64("running", n))
	}
	return nil
}

// cutOnSignal calls cut on the next signal that wants an end, unless ctx ends
// before.
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

// wait returns after a time, or with ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
