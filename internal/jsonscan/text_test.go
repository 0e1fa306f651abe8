// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// judgeText finds byte by byte the end of the string that text continues, or the offset
// and reason of its error.
func judgeText(text string) (end int, reason string) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			for at, r := range text[:i] {
				if r == utf8.RuneError && !strings.HasPrefix(text[at:], "\uFFFD") {
					return at, "invalid UTF-8"
				}
			}
			return i + 1, ""
		case c < ' ':
			return i, "control character " + QuoteByte(c) + " in a string"
		case c != '\\':
			i++
		case i+1 == len(text):
			return i + 1, "the JSON text ends too early"
		case strings.IndexByte(`"\/bfnrt`, text[i+1]) >= 0:
			i += 2
		case text[i+1] == 'u' && len(text) >= i+6 && strings.Trim(text[i+2:i+6], "0123456789abcdefABCDEF") == "":
			i += 6
		default:
			return i, "unknown escape in a string"
		}
	}
	return len(text), "the JSON text ends too early"
}

// judged returns a scanner's result in the form of judgeText.
func judged(end int, err *Error) (int, string) {
	if err == nil {
		return end, ""
	}
	if end != Failed {
		return end, "an error beside an end: " + err.Error()
	}
	return err.Offset, err.Reason
}

// flowText streams a string that arrives in two pieces, the first with its opening
// quote.
func flowText(text string, at int) (end int, err *Error) {
	window := make([]byte, 512)
	a := &Arrival{r: &jsontest.CutReader{Text: text[at:], End: io.EOF, Together: at%2 == 0}, maxBytes: len(text), window: &window}
	a.data = window[:copy(window, text[:at])]
	a.total = at
	f := flow{Arrival: a, s: NewScanner(a.data, a.lim), holdFrom: none}
	if end = f.text(0); end >= 0 {
		end += f.consumed
	}
	if f.s.Err != nil {
		f.s.Err.Offset += f.consumed
	}
	return end, f.s.Err
}

// whatStops are the valid and invalid parts of strings that are not plain.
var whatStops = []string{
	`"`, "", `\`, `\n`, `\t`, `\"`, `\\`, `\\n`, `\n\n`, `\u004E`, `\u12g4`, `\x`, `\]`, `\N`, "\\\x00", "\\\xee", "\\é",
	"\x00", "\x1f", "\n", "\x7f", "é", "世", "🎉n", "\x80", "\x80n", "\xa2n", "\xdc\\n", "\xc3", "\xe2\x82n", "\xf0\x9f\x8e", "\xff",
}

// Strings are read in words, in blocks of four and eight words, and in windows. At any
// offset in these, an end or error of a string has the same effect as in a loop over
// bytes; in the first of its blocks, in plain text, and in text with lines and with
// quotes.
func TestTextStopsAnywhere(t *testing.T) { eachWay(t, testTextStopsAnywhere) }

func testTextStopsAnywhere(t *testing.T) {
	t.Helper()
	const blocks = 130
	heads := []string{
		strings.Repeat("a", blocks),
		`\n` + strings.Repeat("a", blocks),
		strings.Repeat(`a line of eighteen\n`, 7)[:blocks],
		strings.Repeat("a", shortText+blocks),
		strings.Repeat(`\"quoted\"`, 13)[:blocks],
	}
	for _, head := range heads {
		for n := max(0, len(head)-blocks-10); n <= len(head); n++ {
			for _, stop := range whatStops {
				for _, tail := range []string{strings.Repeat("z", 70) + `"`, `n"`} {
					checkText(t, head[:n]+stop+tail)
				}
			}
		}
	}
}

// The same for every cut.
func TestTextCutAnywhere(t *testing.T) { eachWay(t, testTextCutAnywhere) }

func testTextCutAnywhere(t *testing.T) {
	t.Helper()
	head := `\n` + strings.Repeat(`a line of twenty-one\n`, 6)
	tails := []string{"z", strings.Repeat("z", 70)}
	for n := range len(head) + 1 {
		for _, stop := range whatStops {
			text := head[:n] + stop + tails[n%2] + `"`
			wantEnd, want := judgeText(text)
			// Most are cut only near the end of the token.
			from, to := max(1, n-1), min(len(text), n+len(stop)+2)
			if n%7 == 0 {
				from, to = 1, len(text)
			}
			for at := from; at <= to; at++ {
				end, reason := judged(flowText(`"`+text, at))
				if end != wantEnd+1 || reason != want {
					t.Fatalf("%q cut at %d: %d %q, want %d %q", text, at, end, reason, wantEnd+1, want)
				}
			}
		}
	}
}

func checkText(t *testing.T, text string) {
	t.Helper()
	wantEnd, want := judgeText(text)
	s := NewScanner([]byte(`"`+text), Limits{})
	end, escaped := s.Text(0)
	end, reason := judged(end, s.Err)
	if end != wantEnd+1 || reason != want {
		t.Fatalf("%q: %d %q, want %d %q", text, end, reason, wantEnd+1, want)
	}
	if want == "" && escaped != strings.Contains(text[:wantEnd], `\`) {
		t.Fatalf("%q: escaped %v", text, escaped)
	}
}

// skipProse stops at each block with other text than plain ASCII and line ends, for
// every byte next to every other, at any offset in the block and at its boundary with
// the next.
func TestSkipProse(t *testing.T) {
	plain := func(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' }
	for _, at := range []int{0, 1, 6, 7, 8, 30, 55, 56, 62, 63, 64, 71, 126, 127} {
		data := []byte(strings.Repeat("x", 140))
		for a := range 256 {
			for b := range 256 {
				data[at], data[at+1] = byte(a), byte(b)
				var want int // the block with the first of the two that is not plain
				switch {
				case a >= utf8.RuneSelf:
					want = max(at-1, 0) // it might follow a backslash
				case !plain(byte(a)) && (a != '\\' || b != 'n'):
					want = at
				case b >= utf8.RuneSelf:
					want = at
				case !plain(byte(b)):
					want = at + 1
				default:
					want = 128
				}
				if got := skipProse(data, 0); got != min(want&^63, 128) {
					t.Fatalf("bytes %#x %#x at %d: %d, want %d", a, b, at, got, want&^63)
				}
			}
		}
	}
}

// skipProse leaves less than a block of plain text and the byte after it.
func TestSkipProseToTheEnd(t *testing.T) {
	for n := range 300 {
		got := skipProse([]byte(strings.Repeat("a", n)), 0)
		if want := max(n-1, 0) &^ 63; got != want {
			t.Errorf("%d bytes: %d skipped, want %d", n, got, want)
		}
	}
}

func TestIsShort(t *testing.T) {
	for c := range 256 {
		if got, want := isShort(byte(c)), strings.IndexByte(`"\/bfnrt`, byte(c)) >= 0; got != want {
			t.Errorf("%q: %v, want %v", rune(c), got, want)
		}
	}
}
