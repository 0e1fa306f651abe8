// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A gateway responds immediately, so the absence of a response is an error.
func TestStatusTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		conn, mute := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, mute) }() // ends with conn
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		if _, got := Get(t.Context(), transport, "http://nowhere/status", nil); !errors.Is(got, errStatusLate) || time.Since(start) != statusTimeout {
			t.Errorf("got %v after %v", got, time.Since(start))
		}
	})
}
