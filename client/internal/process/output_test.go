// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

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
	got := tl.lines(nil)
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

func (s severities) WithGroup(string) slog.Handler { return s }

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
		if len(logged) != 2 || logged[slog.LevelInfo] != stderrPerSec || logged[slog.LevelWarn] != 1 {
			t.Errorf("logged %v, want %d at the level of information, and one of those that are not logged", logged, stderrPerSec)
		}
		if got := tl.lines(nil); len(got) != stderrKept {
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

// The lines that are not logged are counted in the log, also those of the last second before
// the end.
func TestLinesNotLoggedAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			tl  stderrTail
			log strings.Builder
		)
		tl.drain(strings.NewReader(strings.Repeat("x\n", stderrPerSec+7)), 100, nil, slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)
		if want := "level=WARN msg=\"backend stderr lines not logged\" count=7\n"; !strings.HasSuffix(log.String(), want) {
			t.Errorf("the log ends with %q, want %q", log.String()[max(0, log.Len()-100):], want)
		}
	})
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
	got := tl.lines(secrets)
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
	if got := tl.lines(secrets); len(got) != 1 || got[0] != want {
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

// A stream that another process holds is read up to what was written before stopAtEnd,
// however much that is, and no further.
func TestOutputIsReadToItsEnd(t *testing.T) {
	for name, waits := range map[string]bool{"before": false, "while it is read": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(r, w) // after the reading: w represents the process that holds it
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
