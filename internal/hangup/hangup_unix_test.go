// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package hangup

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A pipe hangs up when its reader has left, also if that happens a moment later.
func TestPipe(t *testing.T) {
	t.Parallel()
	for name, soon := range map[string]bool{"before": false, "during the wait": true} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if Now(w) || Within(w, lookInterval) {
			t.Errorf("%s: the reader has not left", name)
		}
		if soon {
			time.AfterFunc(10*time.Millisecond, func() { r.Close() })
		} else {
			r.Close()
			if !Now(w) {
				t.Error("the reader has left")
			}
		}
		if !Within(w, time.Minute) {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// A socket hangs up when the peer has closed it, and not when the peer has ended what it
// sends.
func TestSocket(t *testing.T) {
	t.Parallel()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)) //nolint:forcetypeassert // of a ListenUnix
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	own, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := own.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	if Now(own) {
		t.Error("the peer still reads")
	}
	peer.Close()
	if !Now(own) {
		t.Error("the peer has closed the socket")
	}
	own.Close()
	if !Now(own) {
		t.Error("a closed socket has a reader")
	}
}

// What is no file of the system has not hung up.
func TestOther(t *testing.T) {
	t.Parallel()
	if w := new(bytes.Buffer); Now(w) || Within(w, time.Hour) {
		t.Error("a buffer has hung up")
	}
}
