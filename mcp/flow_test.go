// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// flowed streams a text and returns the output.
func flowed(t testing.TB, text string, lim Limits, p Passage, cuts []byte) (string, *Result, error) {
	t.Helper()
	a := NewArrival(&cutReader{text: text, cuts: cuts, end: io.EOF, together: len(cuts)%2 == 0}, -1, lim, 1<<30)
	whole, err := a.Begin()
	if whole != nil || err != nil {
		t.Fatalf("%.60s: the whole was had: %v", strings.TrimSpace(text), err)
	}
	var out bytes.Buffer
	res, err := a.Flow(&out, p)
	return out.String(), res, err
}

// apart splits the output into the result and the members after it, without their
// comma.
func apart(t testing.TB, out string) (result, beside string) {
	t.Helper()
	s := newScanner([]byte(out), Limits{})
	end := s.value(0, 0)
	if end < 0 {
		t.Fatalf("%q: %v", out, s.err)
	}
	return out[:end], strings.TrimPrefix(out[end:], ",")
}

// namedIn returns the members of a message that JSON-RPC does not define: all, or those
// after the result.
func namedIn(msg []byte, behind bool) (all []string) {
	for name, value := range Members(msg) {
		switch name {
		case "result":
			behind = false
		case "jsonrpc", "id":
		default:
			if !behind {
				all = append(all, name+"="+string(value))
			}
		}
	}
	return all
}

// checkFlow compares streaming with parsing: the same messages are accepted, with the
// same output, however the text is cut and however much of it is in the window.
func checkFlow(t testing.TB, text string, inWindow int, drop []Field, cuts []byte) {
	t.Helper()
	in := long(text, inWindow%(len(text)+1))
	if len(in) == windowSize {
		in += " "
	}
	m, parseErr := Parse([]byte(in), Limits{})
	p := Passage{Drop: drop}
	if len(drop) > 0 {
		p.Front = []byte(`"front":[1]`)
	}
	out, res, err := flowed(t, in, Limits{}, p, cuts)
	if good := parseErr == nil && m.Kind == KindResult; good != (err == nil) {
		t.Fatalf("%q cut %v: flows with %v, parses with %v as %v", text, cuts, err, parseErr, m.Kind)
	}
	if err != nil {
		checkFlowError(t, text, len(in), err)
		return
	}
	out, besides := apart(t, out)
	if got, want := namedIn([]byte("{"+besides+"}"), false), namedIn([]byte(in), true); !slices.Equal(got, want) {
		t.Fatalf("%q cut %v: beside it %q, want %q", text, cuts, got, want)
	}
	if want := compact(t, passed(&m.Result.Object, p)); out != want && compact(t, out) != want {
		t.Fatalf("%q cut %v without %v: %q, want %q", text, cuts, drop, out, want)
	}
	if len(drop) == 0 && out != string(m.Result.Bytes()) {
		t.Fatalf("%q cut %v: changed to %q", text, cuts, out)
	}
	got, gotOK := res.Bool(FieldIsError)
	want, wantOK := m.Result.Bool(FieldIsError)
	if got != want || gotOK != wantOK {
		t.Fatalf("%q: isError %v, %v; want %v, %v", text, got, gotOK, want, wantOK)
	}
}

func checkFlowError(t testing.TB, text string, length int, err error) {
	t.Helper()
	pe, ok := errors.AsType[*ParseError](err)
	if !ok || pe.Offset < 0 || pe.Offset > length || pe.Exceeded == LimitBytes {
		t.Fatalf("%q: %#v", text, err)
	}
	checkOneLine(t, err)
}

// passed returns the expected output for a complete result.
func passed(res *Object, p Passage) string {
	var e Edit
	for _, f := range p.Drop {
		e.Delete(f)
	}
	text := string(e.AppendTo(nil, res))
	if len(p.Front) == 0 {
		return text
	}
	rest := strings.TrimLeft(text[1:], " \t\r\n")
	if rest[0] != '}' {
		rest = "," + rest
	}
	return "{" + string(p.Front) + rest
}

// compact removes white space between tokens.
func compact(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return out.String()
}

// flowing are texts that are results, and texts that nearly are.
func flowing() []string {
	inside := []string{
		``, ` `, `"a":1`, ` "a" : 1 `, `"isError":true`, `"isError":false,"a":[]`, `"isError":1`, `"isError":{"a":1}`,
		`"ttlMs":1,"content":[{"type":"text","text":"a\n\u00e9\ud83c\udf89\\\"b"}],"cacheScope":"public"`,
		`"resultType":"complete","x":1`, `"x":1,"resultType":"complete"`, `"x":1 , "resultType":"complete" , "y":2`, `"ttlMs":0,"cacheScope":1`,
		` "ttlMs" : 0 , "cacheScope" : 1 , "z" : "äöü日本語🎉" `, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"a":1}`,
		`"_meta":{ "a" : 1 , "io.modelcontextprotocol/serverInfo" : {} } , "b" : 2`, `"_meta":{"io.modelcontextprotocol/serverInfo":{}}`,
		`"_meta":[1],"ref":{"type":"x","uri":"u"}`, `"ref":{"a":1,"a":1}`, `"_meta":{"a":1,"\u0061":1}`, `"a":{"a":1,"a":2}`,
		`"a":1,"a":2`, `"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"a":11`, `"a":[1,-0.5e+10,true,false,null,"",[],{},[[{"b":[{}]}]]]`,
		`"a":01`, `"a":1.`, `"a":tru`, `"a":"\x"`, `"a":"\u12g4"`, "\"a\":\"\xff\"", "\"a\":\"\xe2\x82\"", "\"a\":\"\xe2\x82\\n\"", "\"a\":\"\xf0\x9f\x8e\xff\"",
		"\"a\":\"b\nc\"", `"a":"` + strings.Repeat("abcdefg\\n", 30) + `"`, `"a":"` + strings.Repeat("日", 40) + "\x80" + `"`,
		`"\ud800":1`, `"a":"\ud800"`, `"a":1,`, `,"a":1`, `"a":1 "b":2`, `"a"1`, `"a":[1}`, `"a":{"b":1]`, `"a":[1,]`, `"a":{"b":1,}`, `a`, `"a":"`, `"a":nulL`,
		`"a":` + brackets(126, "["), `"a":` + brackets(127, "["), `"a":` + brackets(126, `{"":`), `"a":` + brackets(127, `[{"":`),
		`"` + strings.Repeat("n", 100) + `":1,"` + strings.Repeat("n", 100) + `":2`, `"` + strings.Repeat("n", 99) + `":1,"` + strings.Repeat("n", 100) + `":2`,
	}
	var out []string
	for i, members := range inside {
		switch i % 3 {
		case 0:
			out = append(out, `{"jsonrpc":"2.0","id":1,"result":{`+members+`}}`)
		case 1:
			out = append(out, `{"result":{`+members+`},"jsonrpc":"2.0","id":"ab"}`+"\n")
		default:
			out = append(out, ` { "jsonrpc" : "2.0" , "x":[{}], "result" : {`+members+`} , "id" : -7 } `)
		}
	}
	for _, tt := range goodMessages() {
		out = append(out, tt.in)
	}
	for _, tt := range badMessages() {
		if len(tt.in) < 1000 {
			out = append(out, tt.in)
		}
	}
	return append(out,
		`{"jsonrpc":"2.0","id":1,"result":{}} x`, `{"jsonrpc":"2.0","id":1,"result":{}}{}`, `{"jsonrpc":"2.0","id":1,"result":{}`, `{"jsonrpc":"2.0","id":1,"result":{}},`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","id":1.5,"result":{}}`, `{"jsonrpc":"2.0","id":[1],"result":{}}`, `{"jsonrpc":"2.0","result":{}}`,
		`{"id":1,"result":{}}`, `{"jsonrpc":2.0,"id":1,"result":{}}`, `{"jsonrpc":{},"id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"Error":1}`, `{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 1022)+`","result":{}}`,
		`{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 1023)+`","result":{}}`, `{"jsonrpc":"2.0","id":"\ud800","result":{}}`,
	)
}

func dropped() [][]Field {
	return [][]Field{
		nil, {FieldTTL, FieldCacheScope, FieldResultType, MetaServerInfo}, {FieldMeta, FieldIsError}, {FieldContent, FieldRefURI, FieldNone},
	}
}

func TestFlowAgreesWithParse(t *testing.T) {
	r := rand.New(rand.NewPCG(65, 536))
	for _, text := range flowing() {
		for _, drop := range dropped() {
			for _, cuts := range [][]byte{nil, {0}, {0, 6}, {byte(r.UintN(40)), byte(r.UintN(9))}} {
				checkFlow(t, text, r.IntN(len(text)+1), drop, cuts)
			}
		}
	}
}

// For every cut into two pieces.
func TestFlowCutAnywhere(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"ab","result":{"a":[1.5e3,true,{"b":"c\u00e9é日🎉\\"}],"ttlMs":10,"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":null},"isError":false}}`,
		`{ "result" : { "ttlMs" : 1 , "a" : [ ] , "cacheScope" : "x" } , "id" : 12 , "jsonrpc" : "\u0032.0" }`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"日本\xe6\x97\"}}", `{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83c\udf8"}}`,
	} {
		for at := range len(text) {
			for _, drop := range dropped()[:2] {
				checkFlow(t, text, at, drop, nil)
			}
		}
	}
}

func FuzzFlow(f *testing.F) {
	for i, text := range flowing() {
		f.Add([]byte(text), i*7, byte(i), []byte{byte(i), byte(i % 5)})
	}
	f.Fuzz(func(t *testing.T, text []byte, inWindow int, drop byte, cuts []byte) {
		all := dropped()
		checkFlow(t, string(text), max(inWindow, 0), all[int(drop)%len(all)], cuts)
	})
}

// Checked text is written before Flow waits for more.
func TestFlowWritesBeforeItWaits(t *testing.T) {
	pieces := []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", windowSize), "first ", `sec\`, `nd`, "\xe6\x97", "\xa5", `","n":12`, `3,"o":[1`, `,2]`, `},"x":0}`,
	}
	want := []string{"first ", "sec", `\nd`, "", "\xe6\x97\xa5", `","n":`, `123,"o":[`, `1,2]`, `},"x":0`}
	r := &relay{pieces: pieces}
	a := NewArrival(r, -1, Limits{}, 1<<30)
	if whole, err := a.Begin(); whole != nil || err != nil {
		t.Fatal(err)
	}
	if _, err := a.Flow(r, Passage{}); err != nil {
		t.Fatal(err)
	}
	if got := r.between[len(r.between)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("written before each further piece: %q, want %q", got, want)
	}
}

// relay is a reader of pieces and a writer that records the output between two reads.
type relay struct {
	pieces  []string
	between []string
	written strings.Builder
}

func (r *relay) Read(p []byte) (int, error) {
	r.between = append(r.between, r.written.String())
	r.written.Reset()
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; r.pieces[0] == "" {
		r.pieces = r.pieces[1:]
	}
	return n, nil
}

func (r *relay) Write(p []byte) (int, error) { return r.written.Write(p) }

// Nothing is written of invalid text, nor after it.
func TestFlowWritesCheckedTextOnly(t *testing.T) {
	good := strings.Repeat("x", 3*windowSize)
	for _, bad := range []string{"\x00", `\q`, "\xff", "\n", `"]`, `"},`, `","a":1`} {
		out, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{"a":"`+good+bad+`evil"}}`, Limits{}, Passage{}, []byte{200})
		if err == nil || strings.Contains(out, "evil") || bad[0] != '"' && !strings.HasPrefix(`{"a":"`+good, out) {
			t.Errorf("%q: %d bytes, the last of them %q, %v", bad, len(out), out[max(0, len(out)-20):], err)
		}
	}
}

var errWriter = errors.New("the client is gone")

// brokenAfter is a writer that fails after left writes.
type brokenAfter struct{ left int }

func (w *brokenAfter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errWriter
	}
	return len(p), nil
}

// Nothing more is read after the writer has failed.
func TestFlowWriterError(t *testing.T) {
	r := &relay{pieces: slices.Repeat([]string{strings.Repeat(" ", windowSize)}, 10)}
	r.pieces[0] = `{"jsonrpc":"2.0","id":1,"result":{"a":"` + r.pieces[0]
	a := NewArrival(r, -1, Limits{}, 1<<30)
	if _, err := a.Begin(); err != nil {
		t.Fatal(err)
	}
	_, err := a.Flow(&brokenAfter{left: 2}, Passage{})
	if !errors.Is(err, errWriter) || len(r.pieces) < 5 {
		t.Errorf("%v, with %d pieces left", err, len(r.pieces))
	}
}

// A Passage applies to the whole result, not only to its head.
func TestPassage(t *testing.T) {
	big := `"a":"` + strings.Repeat("x", windowSize) + `"`
	for _, tt := range []struct {
		name, members, want string // want is the error, or empty
		p                   Passage
	}{
		{"its id", big, "", Passage{ID: NumberID(1)}},
		{"another id", big, "the id is not the request's", Passage{ID: StringID("1")}},
		{"complete in front", `"resultType":"complete",` + big, "", Passage{Complete: true}},
		{"complete behind", big + `,"resultType":"c\u006fmplete"`, "", Passage{Complete: true}},
		{"incomplete behind", big + `,"resultType":"input_required"`, `member "resultType" is not "complete"`, Passage{Complete: true}},
		{"a number", big + `,"resultType":1`, `member "resultType" is not "complete"`, Passage{Complete: true}},
		{"an object", big + `,"resultType":{}`, `member "resultType" is an object`, Passage{Complete: true}},
		{"whatever", big + `,"resultType":{}`, "", Passage{}},
		{"refused", big + `,"ttlMs":1`, `the member "ttlMs" comes too late in the result`, Passage{Refuse: []Field{FieldTTL, FieldNone}}},
		{"refused in meta", big + `,"_meta":{"io.modelcontextprotocol/serverInfo":1}`, `the member "io.modelcontextprotocol/serverInfo" comes too late in the result`, Passage{Refuse: []Field{MetaServerInfo}}},
		{"refused, but shown", `"ttlMs":1,` + big, "", Passage{Refuse: []Field{FieldTTL}}},
		{"refused elsewhere", big + `,"b":{"ttlMs":1}`, "", Passage{Refuse: []Field{FieldTTL}}},
	} {
		_, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{`+tt.members+`}}`, Limits{}, tt.p, nil)
		pe, _ := errors.AsType[*ParseError](err)
		if (err != nil) != (tt.want != "") || err != nil && pe.Reason != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// The limits apply to streaming as to parsing.
func TestFlowLimits(t *testing.T) {
	big := strings.Repeat("x", windowSize)
	in := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + big + `","b":[{"c":{"d":[]}}]}}`
	for _, tt := range []struct {
		lim  Limits
		want Limit
	}{
		{Limits{Depth: 6}, LimitNone}, {Limits{Depth: 5}, LimitDepth}, {Limits{Members: 7}, LimitNone}, {Limits{Members: 6}, LimitMembers},
	} {
		for _, cuts := range [][]byte{nil, {0}} {
			_, _, err := flowed(t, in, tt.lim, Passage{}, cuts)
			_, parseErr := Parse([]byte(in), tt.lim)
			pe, ok := errors.AsType[*ParseError](err)
			if ok != (tt.want != LimitNone) || ok && pe.Exceeded != tt.want || ok != (parseErr != nil) {
				t.Errorf("%+v: %v; parsed: %v", tt.lim, err, parseErr)
			}
		}
	}
}

// Tokens that cannot be split must fit into the window; text that arrives byte by byte
// is not scanned again for each byte.
func TestFlowOfLongTokens(t *testing.T) {
	const half, twice = windowSize / 2, 2 * windowSize
	for _, tt := range []struct {
		name, members string
		ok            bool
	}{
		{"a number", `"a":` + strings.Repeat("1", half), true},
		{"a number beyond", `"a":` + strings.Repeat("1", twice), false},
		{"a name", `"` + strings.Repeat("n", half) + `":1`, true},
		{"a name below", `"a":{"` + strings.Repeat("n", half) + `":1}`, true},
		{"a name beyond", `"` + strings.Repeat("n", twice) + `":1`, false},
		{"space before a name", `"a":1,` + strings.Repeat(" ", half) + `"b":1`, true},
		{"space before a name beyond", `"a":1,` + strings.Repeat(" ", twice) + `"b":1`, false},
		{"other space", `"a":[` + strings.Repeat(" ", twice) + `1` + strings.Repeat(" ", twice) + `]` + strings.Repeat(" ", twice), true},
		{"a string", `"a":"` + strings.Repeat("日", twice) + `"`, true},
		{"escapes", `"a":"` + strings.Repeat(`\u00e9\n`, twice) + `"`, true},
		{"names", `"a":0` + members(20_000), true},
	} {
		in := long(`{"jsonrpc":"2.0","id":1,"result":{`+tt.members+`}}`, 100)
		for _, cuts := range [][]byte{nil, {2}} {
			out, _, err := flowed(t, in, Limits{}, Passage{}, cuts)
			if (err == nil) != tt.ok || tt.ok && out != "{"+tt.members+"}" {
				t.Errorf("%s, cut %v: %d bytes, %v", tt.name, cuts, len(out), err)
			}
		}
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"member %d":%d`, i, i)
	}
	return b.String()
}

// A reused window shows nothing of the previous message.
func TestFlowsShareNoData(t *testing.T) {
	for i := range 20 {
		text := strings.Repeat(string(rune('a'+i)), windowSize+i)
		out, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{"a":"`+text+`"}}`, Limits{}, Passage{}, nil)
		if err != nil || out != `{"a":"`+text+`"}` {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

func TestFlowAllocations(t *testing.T) {
	in := textResult(1 << 20)
	got := testing.AllocsPerRun(20, func() {
		a := NewArrival(strings.NewReader(in), -1, Limits{}, 1<<30)
		if whole, err := a.Begin(); whole != nil || err != nil {
			t.Fatal(err)
		}
		if _, err := a.Flow(io.Discard, Passage{}); err != nil {
			t.Fatal(err)
		}
	})
	if got > 16 { // one or two for each cut within a token
		t.Errorf("%v allocations", got)
	}
}
