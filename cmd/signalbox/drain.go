// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
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
	if cfg.Drain.Delay == 0 {
		cfg.Drain.Delay = -1
	}
	if cfg.Drain.Spread == 0 {
		cfg.Drain.Spread = -1
	}
}

func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// drain ends the service in order: it says that it is not ready and takes no new
// sessions, gives load balancers the time to notice, lets the running calls end, and ends the
// backends. One more signal cuts what is left of that. Then release lets the
// signals go, so that the third ends the process.
func (s *service) drain(ctx context.Context, signals <-chan os.Signal, release func()) error {
	d := s.cfg.Effective().Drain
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	// Ends with ctx, which ends with drain.
	go cutOnSignal(ctx, signals, func() { cut(); release() })

	s.gateway.Drain()
	s.log.InfoContext(ctx, "shutting down; one more signal ends it at once", slog.Duration("delay", max(d.Delay, 0)), slog.Duration("timeout", d.Timeout))
	wait(ctx, d.Delay)
	err := s.shutdown(ctx, d.Timeout)
	if s.flags.stdio {
		<-s.stdio // if it ended only now, it was we who ended it
	}
	s.http.close(ctx)
	return err
}

// shutdown ends the gateway. Calls that had to be cut are told so and logged;
// they are no failure of the command.
func (s *service) shutdown(ctx context.Context, timeout time.Duration) error {
	bounded := ctx
	if timeout >= 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	err := s.gateway.Shutdown(bounded)
	if err != nil && bounded.Err() != nil {
		s.log.WarnContext(ctx, "not everything had ended and was cut", slog.Any("error", err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("shut down: %w", err)
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
