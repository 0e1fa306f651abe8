// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"weak"

	"github.com/signalbox-mcp/signalbox/internal/bound"
)

const uri = "signalbox://results/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// block is a content block, with the members that the tests use.
type block struct {
	Type        string          `json:"type"`
	Text        *string         `json:"text,omitempty"`
	Data        string          `json:"data,omitempty"`
	MimeType    string          `json:"mimeType,omitempty"`
	URI         string          `json:"uri,omitempty"`
	Name        string          `json:"name,omitempty"`
	Size        int             `json:"size,omitempty"`
	Resource    *block          `json:"resource,omitempty"`
	Blob        string          `json:"blob,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

type result struct {
	Content           []block         `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	Meta              json.RawMessage `json:"_meta"`
}

func textBlock(text string) block { return block{Type: "text", Text: &text} }

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// cutTo cuts a result, and returns it, its size, and its whole content.
func cutTo(t *testing.T, raw []byte, most int64, asError bool) (r result, out []byte, whole *bound.Content, from int64) {
	t.Helper()
	c := bound.Cut{
		Most: most, AsError: asError,
		Keep: func(c *bound.Content) string { whole = c; return uri },
		Note: func(at int64, _ *bound.Content) string { from = at; return "NOTE" },
	}
	out = c.Apply(raw)
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%.200s: %v", out, err)
	}
	return r, out, whole, from
}

// randomText has characters of each length, and those that JSON escapes.
func randomText(r *rand.Rand, n int) string {
	letters := []rune("abc \n\t\"\\\x01é漢😀\u2028")
	var b strings.Builder
	for b.Len() < n {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// offsetIn returns the offset in the URI of a block.
func offsetIn(t *testing.T, text string) int64 {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(u.Query().Get("offset"), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// What the result has and what is read in pieces of any size are together the texts of the result, in
// both ways of reading, and no piece is larger than it may be. Each block that is not text is there as it
// was, or can be read by its link.
func TestPiecesAreTheWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := int64(bound.MinResult + r.IntN(8<<10))
		var blocks []block
		var texts strings.Builder
		images := make(map[string]bool)
		for range 1 + r.IntN(5) {
			switch r.IntN(4) {
			case 0:
				data := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(len(images) + 1)}, 1+r.IntN(6<<10)))
				images[data] = true
				blocks = append(blocks, block{Type: "image", Data: data, MimeType: "image/png"})
			case 1:
				text := randomText(r, r.IntN(3<<10))
				texts.WriteString(text)
				blocks = append(blocks, block{Type: "resource", Resource: &block{URI: "file:///x", MimeType: "text/x", Text: &text}})
			default:
				text := randomText(r, r.IntN(20<<10))
				texts.WriteString(text)
				blocks = append(blocks, textBlock(text))
			}
		}
		raw := encode(t, map[string]any{"content": blocks})
		got, out, whole, from := cutTo(t, raw, most, false)
		if whole == nil {
			if !bytes.Equal(out, raw) {
				t.Errorf("seed %d: changed", seed)
			}
			continue
		}
		if int64(len(out)) > most {
			t.Errorf("seed %d: %d bytes of %d", seed, len(out), most)
		}
		var head strings.Builder
		for i := range got.Content {
			b := &got.Content[i]
			switch {
			case b.Type == "text" && *b.Text != "NOTE":
				head.WriteString(*b.Text)
			case b.Type == "resource":
				head.WriteString(*b.Resource.Text)
			case b.Type == "image":
				delete(images, b.Data)
			}
		}
		read := func(length func() int64, piece func(from, length int64) (blocks []byte, to int64), use func(b *block)) string {
			var all strings.Builder
			for at := from; at < whole.Size(); {
				raw, to := piece(at, length())
				if to <= at || len(raw) > bound.Room(most) && !bytes.Contains(raw, []byte(`"blob"`)) {
					t.Fatalf("seed %d: from %d to %d of %d, %d bytes of %d", seed, at, to, whole.Size(), len(raw), bound.Room(most))
				}
				var blocks []block
				if err := json.Unmarshal(slices.Concat([]byte("["), raw, []byte("]")), &blocks); err != nil {
					t.Fatal(err)
				}
				for i := range blocks {
					if b := &blocks[i]; b.Text != nil {
						if !utf8.ValidString(*b.Text) {
							t.Errorf("seed %d: %q", seed, *b.Text)
						}
						all.WriteString(*b.Text)
					} else {
						use(b)
					}
				}
				at = to
			}
			return head.String() + all.String()
		}
		links := make(map[int64]bool)
		for i := range got.Content[:len(got.Content)-1] {
			if b := &got.Content[i]; b.Type == "resource_link" {
				links[offsetIn(t, b.URI)] = true
			}
		}
		any := func() int64 { return 1 + r.Int64N(whole.Size()) }
		byTool := read(any, func(at, length int64) ([]byte, int64) { return whole.Blocks(at, length, bound.Room(most), uri, "") }, func(b *block) {
			if b.Type == "resource_link" {
				links[offsetIn(t, b.URI)] = true
			} else {
				delete(images, b.Data)
			}
		})
		byURI := read(any, func(at, length int64) ([]byte, int64) { return whole.Contents(at, length, bound.Room(most), uri) }, func(*block) {})
		if byTool != texts.String() || byURI != texts.String() {
			t.Errorf("seed %d: read_result %t, resources/read %t", seed, byTool == texts.String(), byURI == texts.String())
		}
		for at := range links {
			raw, to := whole.Contents(at, 1, bound.Room(most), uri)
			var b block
			if err := json.Unmarshal(raw, &b); err != nil || to != at+1 || b.MimeType != "image/png" {
				t.Errorf("seed %d: %v, %.100s", seed, err, raw)
			}
			delete(images, b.Blob)
		}
		if len(images) > 0 {
			t.Errorf("seed %d: %d images cannot be read", seed, len(images))
		}
	}
}

// A result that is not too large is the same bytes, however it is written.
func TestSmallResultIsUnchanged(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"small":      `{"content": [{"type":"text","text":"\u0041"}] }`,
		"spaces":     `{"content":[` + strings.Repeat(" ", 8<<10) + `{"type":"text","text":"x"}]}`,
		"other":      `{"content":[],"_meta":{"x":"` + strings.Repeat("x", 8<<10) + `"}}`,
		"no content": `{"x":"` + strings.Repeat("x", 8<<10) + `"}`,
	} {
		c := bound.Cut{Most: bound.MinResult, Keep: func(*bound.Content) string { t.Errorf("%s: is kept", name); return uri }}
		in := []byte(raw)
		if out := c.Apply(in); string(out) != raw || &out[0] != &in[0] {
			t.Errorf("%s: %.100s", name, out)
		}
	}
}

// The text ends after a line if one ends near, and otherwise between two characters.
func TestCutAtBoundary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, end string }{
		{"line", strings.Repeat("0123456789\n", 1000), "9\n"},
		{"character", strings.Repeat("漢", 4000), "漢"},
		{"far line", "a\n" + strings.Repeat("x", 9000), "x"},
	} {
		got, _, whole, from := cutTo(t, encode(t, map[string]any{"content": []block{textBlock(tt.text)}}), bound.MinResult, false)
		text := *got.Content[0].Text
		if !strings.HasSuffix(text, tt.end) || !strings.HasPrefix(tt.text, text) || int(from) != len(text) || whole.Size() != int64(len(tt.text)) || len(text) < bound.MinResult/3 {
			t.Errorf("%s: %d bytes, from %d of %d, %q", tt.name, len(text), from, whole.Size(), text[max(0, len(text)-10):])
		}
		if n := len(got.Content); n != 3 || *got.Content[1].Text != "NOTE" || got.Content[2].Type != "resource_link" || got.Content[2].URI != uri+"?offset="+strconv.FormatInt(from, 10) {
			t.Errorf("%s: %+v", tt.name, got.Content[1:])
		}
	}
}

// Blocks behind the cut are linked, with the media type that they declare if it is one, and blocks that
// fit stay.
func TestBlocksAreNeverCut(t *testing.T) {
	t.Parallel()
	big := base64.StdEncoding.EncodeToString(make([]byte, 9000))
	raw := encode(t, map[string]any{"content": []block{
		{Type: "image", Data: "AAAA", MimeType: "image/gif"},
		textBlock(strings.Repeat("x", 9000)),
		{Type: "audio", Data: big, MimeType: "audio/wav"},
		{Type: "resource", Resource: &block{URI: "x:y", Blob: big, MimeType: "a\"b"}},
		{Type: "strange", Name: "n"},
	}, "isError": true, "_meta": map[string]any{"a": 1}})
	got, _, whole, from := cutTo(t, raw, 8<<10, false)
	if got.Content[0].Data != "AAAA" || !got.IsError || string(got.Meta) != `{"a":1}` {
		t.Errorf("%+v", got)
	}
	var links []string
	for _, b := range got.Content[2:] {
		if b.Type == "resource_link" {
			links = append(links, fmt.Sprintf("%s %s %d %s", strings.TrimPrefix(b.URI, uri), b.MimeType, b.Size, b.Name))
		}
	}
	want := []string{"?offset=9001&length=1 audio/wav 9000 audio", "?offset=9002&length=1  9000 resource", "?offset=9003&length=1 application/json 0 block", fmt.Sprintf("?offset=%d  0 the rest of the result", from)}
	if !slices.Equal(links, want) {
		t.Errorf("got %q, want %q", links, want)
	}
	for at, want := range map[int64]string{
		9001: `"mimeType":"audio/wav","blob":"` + big + `"}`,
		9002: `"blob":"` + big + `"}`,
		9003: `"mimeType":"application/json","text":"{\"type\":\"strange\",\"name\":\"n\"}"}`,
	} {
		if raw, to := whole.Contents(at, 100, 3000, uri); !strings.HasSuffix(string(raw), want) || to != at+1 {
			t.Errorf("%d: %.100s", at, raw)
		}
	}
	// By the tool, a block alone is itself if there is room for it.
	if raw, _ := whole.Blocks(9001, 1, 20<<10, uri, ""); !strings.HasPrefix(string(raw), `{"type":"audio","data":"AAAA`) {
		t.Errorf("%.100s", raw)
	}
	if raw, to := whole.Blocks(9001, 1, 3000, uri, ""); !strings.HasPrefix(string(raw), `{"type":"resource_link"`) || to != 9002 {
		t.Errorf("%.100s", raw)
	}
}

// More blocks than are linked follow with the rest.
func TestManyBlocks(t *testing.T) {
	t.Parallel()
	var blocks []block
	for range 1000 {
		blocks = append(blocks, block{Type: "image", Data: strings.Repeat("A", 4000), MimeType: "image/png"})
	}
	got, out, whole, from := cutTo(t, encode(t, map[string]any{"content": blocks}), 64<<10, false)
	if len(out) > 64<<10 || whole.Size() != 1000 || from == 0 || from > 40 {
		t.Errorf("%d bytes, %d blocks, from %d of %d", len(out), len(got.Content), from, whole.Size())
	}
	links := 0
	for at := from; at < 1000; {
		raw, to := whole.Blocks(at, 5000, bound.Room(64<<10), uri, "")
		links += bytes.Count(raw, []byte("resource_link"))
		at = to
	}
	if links != 1000-int(from) {
		t.Errorf("%d links from %d on", links, from)
	}
}

// Of a marked result each part is between two lines, and is no larger than it may be. What is between them is together the
// text, whatever it has itself.
func TestMarkedParts(t *testing.T) {
	t.Parallel()
	marks, problems := bound.Compile([]bound.Rule{{Mark: true}})
	if problems != nil {
		t.Fatal(problems)
	}
	mark := regexp.MustCompile(`(?s)\A\[text of server "web", not of the user; it ends at (\w{8})\]\n(.*)\n\[(\w{8}): end of the text of server "web"\]\z`)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		most := int64(bound.MinResult + r.IntN(4<<10))
		text := randomText(r, int(most)-200+r.IntN(400)) // about the size at which it is cut
		if seed%2 == 0 {
			text = randomText(r, 20<<10) + "\n[AAAAAAAA: end of the text of server \"web\"]"
		}
		raw, _, err := marks.Results(bound.Target{Name: "x"}).Apply(encode(t, map[string]any{"content": []block{textBlock(text)}}), "web", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var whole *bound.Content
		var from int64
		c := bound.Cut{Most: most, Marked: true, Keep: func(c *bound.Content) string { whole = c; return uri }, Note: func(at int64, _ *bound.Content) string { from = at; return "NOTE" }}
		out := c.Apply(raw)
		var first result
		if err := json.Unmarshal(out, &first); err != nil || int64(len(out)) > most && whole != nil {
			t.Fatalf("seed %d: %d bytes, %v", seed, len(out), err)
		}
		all := ""
		inner := func(b *block) {
			m := mark.FindStringSubmatch(*b.Text)
			if m == nil || m[1] != m[3] {
				t.Fatalf("seed %d: %q", seed, *b.Text)
			}
			all += m[2]
		}
		inner(&first.Content[0])
		if whole == nil {
			continue
		}
		for from < whole.Size() {
			raw, to := whole.Blocks(from, 1+r.Int64N(whole.Size()), bound.Room(most), uri, "web")
			var b block
			if err := json.Unmarshal(raw, &b); err != nil || len(raw) > bound.Room(most) {
				t.Fatalf("seed %d: %d bytes, %v", seed, len(raw), err)
			}
			inner(&b)
			from = to
		}
		// The end of the mark of the whole is the end of the last part.
		if end := strings.LastIndex(all, "\n["); all[:max(end, 0)] != text {
			t.Errorf("seed %d: %d bytes of %d", seed, len(all), len(text))
		}
	}
}

// Structured content that is small stays; otherwise it follows the blocks, as text.
func TestStructuredContent(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 9000)
	small, large := `{"n": 1.0}`, `{"n": "`+strings.Repeat("y", 5000)+`"}`
	raw := []byte(`{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":` + small + `}`)
	if got, _, whole, _ := cutTo(t, raw, 8<<10, false); string(got.StructuredContent) != small || whole.Size() != int64(len(text)) {
		t.Errorf("%s, %d", got.StructuredContent, whole.Size())
	}
	raw = []byte(`{"structuredContent":` + large + `,"content":[{"type":"text","text":"short"}]}`)
	got, _, whole, from := cutTo(t, raw, bound.MinResult, false)
	if got.StructuredContent != nil || *got.Content[0].Text != "short" || from != 5 {
		t.Errorf("%+v, from %d", got, from)
	}
	if raw, _ := whole.Contents(from, 1<<20, 20<<10, uri); !strings.HasSuffix(string(raw), `"mimeType":"application/json","text":`+string(encode(t, large))+`}`) {
		t.Errorf("%.200s", raw)
	}
	if got, _, _, from := cutTo(t, []byte(`{"structuredContent":`+large+`}`), bound.MinResult, false); got.StructuredContent != nil || from != 0 || len(got.Content) != 2 {
		t.Errorf("%+v, from %d", got, from)
	}
	raw = append([]byte(`{"isError":false,`), raw[1:]...)
	got, out, whole, from := cutTo(t, raw, bound.MinResult, true)
	if !got.IsError || got.StructuredContent != nil || from != 0 || len(got.Content) != 2 || whole.Size() != int64(len(large)+5) || bytes.Count(out, []byte(`"isError"`)) != 1 {
		t.Errorf("as an error: %s", out)
	}
}

// A result that is not kept has no link.
func TestResultThatIsNotKept(t *testing.T) {
	t.Parallel()
	c := bound.Cut{Most: bound.MinResult, Keep: func(*bound.Content) string { return "" }, Note: func(int64, *bound.Content) string { return "NOTE" }}
	out := c.Apply(encode(t, map[string]any{"content": []block{{Type: "image", Data: strings.Repeat("A", 9000)}, textBlock(strings.Repeat("x", 9000))}}))
	if strings.Contains(string(out), "resource_link") || !strings.HasSuffix(string(out), `{"type":"text","text":"NOTE"}]}`) {
		t.Errorf("%s", out)
	}
}

func key(n byte) bound.StoreKey { return bound.StoreKey{n} }

// The oldest values are dropped first, of an owner with more than a quarter before those of others, and each
// after its time.
func TestStore(t *testing.T) {
	t.Parallel()
	var s bound.Store[int]
	now := time.Unix(1000, 0)
	if s.Put(now, key(1), "ann", 1, 1) {
		t.Error("the zero value keeps something")
	}
	s.Limit(time.Minute, 100)
	has := func(want ...byte) {
		t.Helper()
		var got []byte
		for n := range byte(20) {
			if v, ok := s.Get(now, key(n)); ok && v == int(n) {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, want) || s.State().Values != len(want) {
			t.Errorf("has %d (%+v), want %d", got, s.State(), want)
		}
	}
	put := func(n byte, owner string, size int64) bool { return s.Put(now, key(n), owner, size, int(n)) }
	if put(1, "ann", 26) || !put(1, "ann", 10) || !put(2, "bob", 25) || !put(3, "ann", 10) || !put(4, "ann", 10) {
		t.Error("put")
	}
	has(2, 3, 4)         // a quarter of ann
	if !put(5, "", 80) { // all of those that are not identified
		t.Error("put")
	}
	has(3, 4, 5)
	if !put(4, "ann", 20) { // in the place of the former one
		t.Error("put")
	}
	has(4, 5)
	now = now.Add(30 * time.Second)
	if next, ok := s.Expire(now); !ok || next != 30*time.Second {
		t.Errorf("next in %v, %t", next, ok)
	}
	put(6, "cid", 0)
	now = now.Add(30 * time.Second)
	if _, ok := s.Get(now, key(5)); ok {
		t.Error("is kept for longer")
	}
	if next, ok := s.Expire(now); !ok || next != 30*time.Second {
		t.Errorf("next in %v, %t", next, ok)
	}
	has(6)
	if got, want := s.State(), (bound.StoreState{Values: 1, Evicted: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	s.Clear()
	has()
	s.Limit(-1, -1)
	put(7, "ann", 1<<40)
	now = now.Add(time.Hour * 1e5)
	has(7)
	if _, ok := s.Expire(now); ok {
		t.Error("will end")
	}
	s.Limit(time.Minute, 1000)
	has()
}

// A long text is compressed in memory if that is worth it, and read in pieces from any offset.
func TestLongText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	plain := strings.Repeat("a line of a log with é and 漢\n", 20_000)
	noise := make([]byte, 400<<10)
	for i := range noise {
		noise[i] = byte(' ' + r.IntN(95))
	}
	text := plain + string(noise)
	_, _, whole, _ := cutTo(t, encode(t, map[string]any{"content": []block{textBlock(text)}}), 64<<10, false)
	if n := whole.Bytes(); n < int64(len(noise)*3/4) || n > int64(len(noise)+len(plain)/8) {
		t.Errorf("%d bytes of %d in memory", n, len(text))
	}
	for range 200 {
		from, length := r.Int64N(whole.Size()), 1+r.Int64N(100<<10)
		raw, to := whole.Blocks(from, length, 64<<10, uri, "")
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		for !utf8.RuneStart(text[from]) {
			from--
		}
		if *b.Text != text[from:to] || to-from > max(length, utf8.UTFMax) || to-from < min(length, 20<<10, whole.Size()-from)-utf8.UTFMax {
			t.Errorf("%d bytes from %d are %d bytes", length, from, to-from)
		}
	}
}

// What is kept of a result does not keep its bytes, which may be a hundred times as many.
func TestContentRetainsNoResult(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]block{
		"short": textBlock(strings.Repeat("x", 9000)),
		"long":  textBlock(strings.Repeat("0123456789\n", 100_000)),
		"image": {Type: "image", MimeType: "image/png", Data: strings.Repeat("A", 9000)},
	} {
		raw := encode(t, map[string]any{"content": []block{b}})
		first := weak.Make(&raw[0])
		_, _, whole, _ := cutTo(t, raw, bound.MinResult, false)
		runtime.GC()
		if first.Value() != nil {
			t.Errorf("%s: the result is retained", name)
		}
		runtime.KeepAlive(whole)
	}
}
