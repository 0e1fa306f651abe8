// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// The status is drawn again with what has changed, also while the gateway does not respond,
// and an interrupt leaves the terminal as it was, with the last status.
func TestWatchStatus(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	drawn := make(chan struct{})
	address, _ := commandtest.StatusServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			commandtest.Answering(200, "application/json", served)(w, r)
		case 2:
			commandtest.Answering(500, "text/plain", "\x1b[1mstarting")(w, r)
		case 3:
			commandtest.Answering(200, "application/json", strings.Replace(served, `"sessions": 1`, `"sessions": 2`, 1))(w, r)
		default:
			close(drawn)
			<-r.Context().Done()
		}
	})
	e := commandtest.New(t, "")
	e.Terminal = func(stream any) bool { return stream == e.Stdout }
	ended := make(chan error)
	flags := &statusFlags{url: address.String(), watch: true, interval: time.Millisecond}
	go func() { ended <- status(t.Context(), e.Env, flags) }()
	<-drawn
	e.Arrived <- syscall.SIGINT
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	first := strings.ReplaceAll(shown, "HOST", address.Host)
	last := strings.Replace(first, "1 session,", "2 sessions,", 1)
	failed := "status of " + address.Host + `: the server responded with HTTP status 500: \x1b[1mstarting` + "\n"
	want := watchBegin + string(screen([]byte(first), defaultRows)) + string(screen([]byte(failed), defaultRows)) +
		string(screen([]byte(last), defaultRows)) + watchEnd + last
	if diff := cmp.Diff(e.Out.String(), want); diff != "" {
		t.Errorf("drawn (-got +want):\n%s", diff)
	}
	if e.Err.String() != "" {
		t.Errorf("standard error has %q", e.Err)
	}
}

// A screen shows no more lines than it has, without a line break at its end.
func TestScreen(t *testing.T) {
	for _, tt := range []struct {
		text string
		rows int
		want string
	}{
		{"a\nb\n", 3, "a|b|" + watchFooter},
		{"a\nb\nc\n", 3, "a|b|1 line more " + watchFooter},
		{"a\nb\nc\n", 1, "a|2 lines more " + watchFooter},
	} {
		want := toTop + strings.ReplaceAll(tt.want, "|", clearToEOL+"\r\n") + clearToEOL + clearToEnd
		if got := string(screen([]byte(tt.text), tt.rows)); got != want {
			t.Errorf("%q on %d rows: got %q, want %q", tt.text, tt.rows, got, want)
		}
	}
	if got := rowsOf(io.Discard); got != defaultRows {
		t.Errorf("got %d rows of no terminal, want %d", got, defaultRows)
	}
}
