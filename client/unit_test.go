// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A child that keeps exiting is restarted ever more slowly, and then not for a while.
//
// D5- 2026-07-28 basic/transports/stdio: "If the server process exits unexpectedly,
// the client SHOULD restart it."
func TestCrashBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCrashBackoff()
	var waits []time.Duration
	for range maxCrashes {
		wait, err := c.admit(now)
		if err != nil {
			t.Fatalf("refused after %v", waits)
		}
		waits = append(waits, wait)
		c.died(now)
	}
	if want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if _, err := c.admit(now.Add(10 * time.Second)); err == nil || !strings.Contains(err.Error(), "5 times within 1m0s; the next start is in 50s") {
		t.Errorf("error %v", err)
	}
	c.explain("it said why")
	if _, err := c.admit(now.Add(10 * time.Second)); !strings.HasSuffix(err.Error(), "in 50s; it said why") {
		t.Errorf("error %v", err)
	}
	if wait, err := c.admit(now.Add(time.Minute)); wait != 0 || err != nil {
		t.Errorf("after a minute: %v, %v", wait, err)
	}
}

// A failed start counts like an exit, and is reported as what it is.
func TestCrashBackoffOfFailedStarts(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCrashBackoff()
	for range maxCrashes {
		c.failed(now, "it is not there")
	}
	want := "it is not there; it was tried 5 times within 1m0s; the next start is in 50s"
	if _, err := c.admit(now.Add(10 * time.Second)); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	c.died(now.Add(time.Hour))
	c.explain("it said why")
	for range maxCrashes - 1 {
		c.died(now.Add(time.Hour))
	}
	want = "its process ended 5 times within 1m0s; the next start is in 1m0s; it said why"
	if _, err := c.admit(now.Add(time.Hour)); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// D8- own: "A process inherits only the environment variables that are configured by
// name, and none of our secrets."
func TestEnvironment(t *testing.T) {
	got := environment([]string{"PATH=/bin", "SECRET=x", "HOME=/h", "LANG=() { evil; }", "path=/other", "NOVALUE"}, []string{"SECRET=mine"})
	if want := []string{"PATH=/bin", "HOME=/h", "path=/other", "SECRET=mine"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestLineQuota(t *testing.T) {
	var q lineQuota
	now := time.Unix(1000, 0)
	passed := 0
	for range 200 {
		if _, ok := q.take(now); ok {
			passed++
		}
	}
	skipped, ok := q.take(now.Add(time.Second))
	if passed != stderrPerSec || skipped != 200-stderrPerSec || !ok {
		t.Errorf("%d passed, %d skipped, then %v", passed, skipped, ok)
	}
}

func TestTailKeepsTheLastLinesAndEscapes(t *testing.T) {
	var tl stderrTail
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "line %d\x1b[2J\u202e\n", i)
	}
	text.WriteString(strings.Repeat("x", 16<<10))
	tl.drain(strings.NewReader(text.String()), 8<<10, nil, slog.New(slog.DiscardHandler), slog.LevelInfo)
	got := tl.lines()
	if len(got) != stderrKept || got[18] != `line 29\x1b[2J\u202e` || len(got[19]) != stderrShown {
		t.Errorf("kept %q", got)
	}
}

// severities counts records by their level.
type severities map[slog.Level]int

func (s severities) Enabled(context.Context, slog.Level) bool { return true }

func (s severities) Handle(_ context.Context, r slog.Record) error {
	s[r.Level]++
	return nil
}

func (s severities) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s severities) WithGroup(string) slog.Handler      { return s }

// endlessReader is a standard error that never ends.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	const line = "ERROR: something that a program says of itself, at some length, and again\n"
	n := 0
	for n+len(line) <= len(p) {
		n += copy(p[n:], line)
	}
	if n == 0 {
		n = copy(p, "\n")
	}
	return n, nil
}

// All of it is read, a hundred pipes full, whatever it contains. It is logged at a
// limited rate, and not as an error.
//
// D2+ 2026-07-28 basic/transports/stdio: "The client MAY capture, forward, or ignore the
// server's `stderr` output and SHOULD NOT assume `stderr` output indicates error
// conditions."
func TestStderrIsReadWhateverItSays(t *testing.T) {
	endless := strings.NewReader(strings.Repeat("x", 64<<10) + "\n") // longer than what is logged of a line
	flood := &io.LimitedReader{R: io.MultiReader(endless, endlessReader{}), N: 4 << 20}
	if os.Getenv("TRANSCRIPTS") == "all" {
		flood.N = 8 << 20
	}
	synctest.Test(t, func(t *testing.T) { // takes no real time
		var tl stderrTail
		logged := severities{}
		tl.drain(flood, 8<<10, nil, slog.New(logged), slog.LevelInfo)
		if flood.N != 0 {
			t.Errorf("%d bytes were not read", flood.N)
		}
		if len(logged) != 1 || logged[slog.LevelInfo] != stderrPerSec {
			t.Errorf("logged %v, want %d at the level of information", logged, stderrPerSec)
		}
		if got := tl.lines(); len(got) != stderrKept {
			t.Errorf("%d lines are kept, want %d", len(got), stderrKept)
		}
	})
}

// A line is logged up to the limit, and what is missing is counted.
func TestTailLogsUpToTheLimit(t *testing.T) {
	const limit = 8 << 10
	for n, want := range map[int]string{1: "", limit: "", limit + 1: "cut=1", 5 * limit: "cut=32768"} {
		var (
			tl  stderrTail
			log strings.Builder
		)
		tl.drain(strings.NewReader(strings.Repeat("x", n)+"\n"), limit, nil, slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
		if got := strings.Count(log.String(), "x"); got != min(n, limit) || !strings.Contains(log.String(), want) || strings.Contains(log.String(), "cut=") != (want != "") {
			t.Errorf("of %d bytes %d were logged, want %q in %.40q...%q", n, got, want, log.String(), log.String()[max(0, log.Len()-20):])
		}
	}
}

// Characters that could deceive a terminal or a reader are escaped by their number.
// Quotes and backslashes are left to the log's own format.
func TestSanitize(t *testing.T) {
	tests := []struct{ text, want string }{
		{`a {"jsonrpc":"2.0"} C:\dir 'x'`, `a {"jsonrpc":"2.0"} C:\dir 'x'`},
		{"tab\tand \u20ac \U0001f468\u200d\U0001f469", "tab\tand \u20ac \U0001f468\u200d\U0001f469"},
		{"\x1b[31m\x00\r\x7f\u009b", `\x1b[31m\x00\x0d\x7f\u009b`},
		{"\u202eevil\u2066\u061c\u2028", `\u202eevil\u2066\u061c\u2028`},
		{"caf\xe9 \xff\ufffd", "caf\\xe9 \\xff\ufffd"},
	}
	for _, tt := range tests {
		if got := sanitize(tt.text); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestStderrIsEscapedOnce(t *testing.T) {
	var (
		tl  stderrTail
		log strings.Builder
	)
	tl.drain(strings.NewReader(`a {"id":1} of C:\dir`+"\n"), 100, nil, slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
	if want := `line="a {\"id\":1} of C:\\dir"` + "\n"; !strings.HasSuffix(log.String(), want) {
		t.Errorf("logged %s, want ...%s", log.String(), want)
	}
}

// Lines are cut between characters, and the configured secrets are not shown (fault
// 48).
func TestTailIsTextWithoutSecrets(t *testing.T) {
	var (
		tl  stderrTail
		log strings.Builder
	)
	secrets := redact.New(http.Header{"Authorization": {"Bearer swordfish-1"}, "X": {"short"}}, []string{"KEY=open sesame", "MODE=prod", "EMPTY="})
	text := "keys open sesame, swordfish-1, prod, short\n" + strings.Repeat("\u20ac", 100) + "\n"
	tl.drain(strings.NewReader(text), 8<<10, secrets, slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
	got := tl.lines()
	if got[0] != "keys [redacted], [redacted], prod, short" || strings.Contains(log.String(), "sesame") {
		t.Errorf("%q, logged %s", got[0], log.String())
	}
	if want := strings.Repeat("\u20ac", stderrShown/3); got[1] != want {
		t.Errorf("%q, want %q", got[1], want)
	}
}

// A secret that begins before the end of what is kept of a line, and ends after it, is
// not shown. A redacted secret leaves room for the text after it.
func TestTailHidesASecretAtItsEnd(t *testing.T) {
	secret := strings.Repeat("s3cret-", 200)[:stderrRaw-100]
	secrets := redact.New(nil, []string{"KEY=" + secret})
	var tl stderrTail
	tl.drain(strings.NewReader(secret+strings.Repeat("x", 60)+secret+"\n"), 8<<10, secrets, slog.New(slog.DiscardHandler), slog.LevelInfo)
	want := "[redacted]" + strings.Repeat("x", 60) + "[redacted]"
	if got := tl.lines(); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A line that is not logged costs only what is kept of it. It is not converted.
func TestUnloggedLinesCostLittle(t *testing.T) {
	secrets := redact.New(nil, []string{"KEY=open sesame"})
	lines := strings.Repeat(strings.Repeat("é", 500)+"\n", 1000)
	got := testing.AllocsPerRun(1, func() {
		var tl stderrTail
		tl.drain(strings.NewReader(lines), 8<<10, secrets, slog.New(slog.DiscardHandler), slog.LevelInfo)
	})
	if most := float64(2*1000 + 50*stderrPerSec); got > most { // the line, and what is kept
		t.Errorf("%v allocations for 1000 lines, want at most %v", got, most)
	}
}

func TestNamesLostSession(t *testing.T) {
	tests := map[string]bool{
		"Session not found": true, "Bad Request: No valid session ID provided": true, "invalid or expired session": true,
		"unknown session": true, "the session was terminated": true, "not found": false, "session": false, "": false,
		"a database session is needed": false,
	}
	for text, want := range tests {
		if got := namesLostSession(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDialReasonTLS(t *testing.T) {
	expired := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a\x1b[2J"}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}
	tests := map[string]error{
		`("CN=a\x1b[2J") is not valid now: it is from 1970-01-01 to 2026-01-02`: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: expired, Reason: x509.Expired}},
		`for another host than "x"`:              x509.HostnameError{Certificate: expired, Host: "x"},
		"unknown authority":                      &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"not acceptable":                         &tls.CertificateVerificationError{Err: errors.New("odd")},
		"does not speak TLS":                     tls.RecordHeaderError{},
		"it does not speak TLS":                  http.ErrSchemeMismatch,
		"no connection in time (limits.connect)": context.DeadlineExceeded,
	}
	for want, err := range tests {
		if got := dialReason(fmt.Errorf("dial: %w", err)); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// The cause of the gateway's own failure is not the server's response to the probe.
func TestDecideLooksForTheFaultFirst(t *testing.T) {
	s := newSetup(Config{Name: "b"})
	for _, cause := range []*mcp.Error{{Code: mcp.CodeHeaderMismatch}, {Code: mcp.CodeMissingCapability}, {Code: mcp.CodeUnsupportedVersion}, {Code: mcp.CodeMethodNotFound}} {
		fault := s.unavailable(cause, "it could not be reached")
		for _, err := range []error{fault, &rejected{why: busy, err: fault}} {
			if got, gotErr := decide(s, nil, err); got != isUndecided || !errors.Is(gotErr, fault) {
				t.Errorf("code %d: finding %d, error %v, want neither and the fault", cause.Code, got, gotErr)
			}
		}
		if got, _ := decide(s, nil, cause); got == isUndecided {
			t.Errorf("code %d: the server's own word says nothing", cause.Code)
		}
	}
}

// A stream that another process holds is read up to what was written before stopAtEnd,
// however much that is, and no further.
func TestOutputIsReadToItsEnd(t *testing.T) {
	for name, waits := range map[string]bool{"before": false, "while it is read": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer closeFiles(r, w) // after the reading: w represents the process that holds it
			o := &output{file: r}
			want := strings.Repeat("x", 40<<10)
			if waits {
				want = "x"
			}
			if _, err := w.WriteString(want); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if waits {
				if _, err := io.CopyN(&got, o, 1); err != nil {
					t.Fatal(err)
				}
				defer time.AfterFunc(20*time.Millisecond, o.stopAtEnd).Stop()
			} else {
				o.stopAtEnd()
			}
			if _, err := io.CopyBuffer(&got, struct{ io.Reader }{o}, make([]byte, 1<<10)); err != nil || got.String() != want {
				t.Errorf("read %d bytes, error %v, want %d and the end", got.Len(), err, len(want))
			}
		})
	}
}

func TestCursorWait(t *testing.T) {
	tests := []struct {
		retry  time.Duration
		misses int
		want   time.Duration
	}{
		{-1, 0, time.Second}, {-1, 2, 4 * time.Second}, {-1, 9, 30 * time.Second},
		{0, 0, 100 * time.Millisecond}, {time.Minute, 3, time.Minute}, {time.Hour, 0, 5 * time.Minute},
	}
	for _, tt := range tests {
		if got := (&cursor{retry: tt.retry}).wait(tt.misses); got != tt.want {
			t.Errorf("retry %v after %d misses: %v, want %v", tt.retry, tt.misses, got, tt.want)
		}
	}
}

func TestBudget(t *testing.T) {
	var b budget
	for range minBudget {
		if !b.take(0) {
			t.Fatal("less than the minimum")
		}
	}
	if b.take(30) || !b.take(50) {
		t.Error("want a tenth of what is under way")
	}
	b.giveBack()
	if !b.take(50) {
		t.Error("what is given back can be taken")
	}
}

func TestGoroutinesEndWithTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var owner goroutines
		var ended atomic.Int32
		for range 3 {
			owner.start(func(ctx context.Context) { // ends with the owner
				<-ctx.Done()
				ended.Add(1)
			})
			synctest.Wait()
		}
		cancel, ok := owner.start(func(ctx context.Context) { <-ctx.Done() })
		cancel()
		owner.finish(time.Second)
		owner.close()
		if ended.Load() != 3 || !ok {
			t.Errorf("%d ended", ended.Load())
		}
		if _, ok := owner.start(func(context.Context) {}); ok {
			t.Error("started after the end")
		}
	})
}

func TestServerRequestsAreBounded(t *testing.T) {
	var a serverRequests
	cancelled := 0
	for i := range maxServerRequests {
		one, err := a.begin(jsonrpc.NumberID(uint64(i)))
		if err != nil {
			t.Fatal("refused within the bound")
		}
		if i != 5 {
			a.bind(one, func() { cancelled++ })
		}
	}
	refused := func(id uint64) bool {
		_, err := a.begin(jsonrpc.NumberID(id))
		return err != nil
	}
	if !refused(99) {
		t.Error("one over the bound")
	}
	a.cancel(jsonrpc.NumberID(3))
	a.cancel(jsonrpc.NumberID(99))
	if cancelled != 1 || !refused(3) {
		t.Errorf("%d cancelled, or the id of an ask that has not ended is free", cancelled)
	}
	a.end(jsonrpc.NumberID(3))
	if !refused(3) {
		t.Error("one over the bound, while an answer is being sent")
	}
	a.release()
	if !refused(4) || refused(3) {
		t.Error("an id in use is free, or a free one in use")
	}
	a.cancel(jsonrpc.NumberID(5)) // before it was added
	a.bind(a.open[jsonrpc.NumberID(5)], func() { cancelled++ })
	if cancelled != 2 {
		t.Errorf("%d cancelled", cancelled)
	}
}
