// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// An answer to initialize that is too long to be read is passed to the client if it is the
// client's, and otherwise not. The session is restored as others are.
func TestLongInitializeIsRepeated(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		relayed(t, func(w *world) {
			w.wordy = before
			w.handshake()
			w.quiet()
			w.wordy = true
			w.kill()
			w.send(call("1", "echo", `{"x":1}`))
			got, changed := w.next(), ""
			for ; strings.Contains(got, "list_changed"); got = w.next() {
				changed += got
			}
			if !strings.Contains(changed, "tools/list_changed") || !strings.Contains(changed, "resources/list_changed") {
				t.Errorf("long before: %v: notified of %q", before, changed)
			}
			if got != answer("1", `{"x":1}`) {
				t.Errorf("long before: %v: got %.200s", before, got)
			}
			if len(w.said) > 0 {
				t.Errorf("long before: %v: reported %q", before, w.said)
			}
		})
	}
}

// A long line that is cut off by the end of the gateway is ended, so that the client can
// read the error that follows.
func TestLongLineIsCutOff(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		text := `{"x":"` + strings.Repeat("y", 2<<20) + `"}`
		w.send(call("1", "echo", text))
		head := make([]byte, 300<<10)
		if _, err := io.ReadFull(w.lines, head); err != nil {
			t.Fatal(err)
		}
		w.kill()
		rest := w.next()
		if len(head)+len(rest) >= len(text) {
			t.Fatal("the line is complete")
		}
		w.expect(ended("1"))
	})
}

// A long request starts a gateway, wherever its method is in the line.
func TestLongLineStartsAGateway(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.kill()
		text := `{"x":"` + strings.Repeat("y", 600<<10) + `"}`
		w.send(`{"jsonrpc":"2.0","id":1,"params":{"name":"echo","arguments":` + text + `},"method":"tools/call"}`)
		got := w.next()
		for strings.Contains(got, "list_changed") {
			got = w.next()
		}
		if got != answer("1", text) {
			t.Errorf("got %.200s", got)
		}
	})
}

// A request that the gateway has answered before it has read it to its end has no second
// answer.
func TestLongLineIsAnsweredEarly(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "echo", `{"x":"`+strings.Repeat("y", 5<<20)+`"}`))
		got := w.next()
		if !strings.Contains(got, `"error"`) {
			t.Fatalf("got %.500s", got)
		}
		synctest.Wait()
		w.kill()
		w.quiet()
	})
}
