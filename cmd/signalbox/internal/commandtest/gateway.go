// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// Gateway serves the socket of a gateway in a state folder, until the test ends or stop is
// called, which leaves the socket as a gateway does that is killed.
func Gateway(t *testing.T, folder, name string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, name)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return func() { _ = l.Close() }
}
