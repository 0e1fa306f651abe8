// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// flowed streams a text and returns the output.
func flowed(t testing.TB, text string, lim Limits, p jsonscan.Passage, cuts []byte) (string, string, error) {
	t.Helper()
	a := jsonscan.NewArrival(&jsontest.CutReader{Text: text, Cuts: cuts, End: io.EOF, Together: len(cuts)%2 == 0}, -1, jsonscan.Limits(lim), 1<<30)
	whole, err := a.Begin()
	if whole != nil || err != nil {
		t.Fatalf("%.60s: the whole was had: %v", strings.TrimSpace(text), err)
	}
	var out bytes.Buffer
	isError, err := a.Flow(&out, p)
	return out.String(), isError, err
}

// window is how much of a message an Arrival holds.
const window = 63 << 10

// long returns the text after enough white space that only its first inWindow bytes are
// in the window.
func long(text string, inWindow int) string {
	return strings.Repeat(" ", max(0, window-inWindow)) + text
}

// apart splits the output into the result and the members after it, without their
// comma.
func apart(t testing.TB, out string) (result, beside string) {
	t.Helper()
	s := jsonscan.NewScanner([]byte(out), jsonscan.Limits{})
	end := s.Value(0, 0)
	if end < 0 {
		t.Fatalf("%q: %v", out, s.Err)
	}
	return out[:end], strings.TrimPrefix(out[end:], ",")
}

// namedIn returns the members of a message that JSON-RPC does not define: all, or those
// after the result.
func namedIn(msg []byte, behind bool) (all []string) {
	for name, value := range jsonscan.Members(msg) {
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
func checkFlow(t testing.TB, text string, inWindow int, drop []jsonscan.Field, cuts []byte) {
	t.Helper()
	in := long(text, inWindow%(len(text)+1))
	if len(in) == window {
		in += " "
	}
	m, parseErr := Parse([]byte(in), Limits{})
	p := jsonscan.Passage{Drop: drop}
	if len(drop) > 0 {
		p.Front = []byte(`"front":[1]`)
	}
	out, isError, err := flowed(t, in, Limits{}, p, cuts)
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
	want := ""
	if b, ok := m.Result.Bool(FieldIsError); ok {
		want = strconv.FormatBool(b)
	}
	if isError != want {
		t.Fatalf("%q: isError %q, want %q", text, isError, want)
	}
}

func checkFlowError(t testing.TB, text string, length int, err error) {
	t.Helper()
	pe, ok := errors.AsType[*jsonscan.Error](err)
	if !ok || pe.Offset < 0 || pe.Offset > length || pe.Exceeded == jsonscan.LimitBytes {
		t.Fatalf("%q: %#v", text, err)
	}
	checkOneLine(t, err)
}

// passed returns the expected output for a complete result.
func passed(res *Object, p jsonscan.Passage) string {
	var e Edit
	for _, f := range p.Drop {
		e.Delete(Field(f))
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
		`"a":` + jsontest.Brackets(126, "["), `"a":` + jsontest.Brackets(127, "["), `"a":` + jsontest.Brackets(126, `{"":`), `"a":` + jsontest.Brackets(127, `[{"":`),
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

func dropped() [][]jsonscan.Field {
	return [][]jsonscan.Field{
		nil, {jsonscan.FieldTTL, jsonscan.FieldCacheScope, jsonscan.FieldResultType, jsonscan.MetaServerInfo}, {jsonscan.FieldMeta, jsonscan.FieldIsError}, {jsonscan.FieldContent, jsonscan.FieldRefURI, jsonscan.FieldNone},
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

// The limits apply to streaming as to parsing.
func TestFlowLimits(t *testing.T) {
	big := strings.Repeat("x", window)
	in := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + big + `","b":[{"c":{"d":[]}}]}}`
	for _, tt := range []struct {
		lim  Limits
		want Limit
	}{
		{Limits{Depth: 6}, LimitNone}, {Limits{Depth: 5}, LimitDepth}, {Limits{Members: 7}, LimitNone}, {Limits{Members: 6}, LimitMembers},
	} {
		for _, cuts := range [][]byte{nil, {0}} {
			_, _, err := flowed(t, in, tt.lim, jsonscan.Passage{}, cuts)
			_, parseErr := Parse([]byte(in), tt.lim)
			pe, ok := errors.AsType[*jsonscan.Error](err)
			if ok != (tt.want != LimitNone) || ok && Limit(pe.Exceeded) != tt.want || ok != (parseErr != nil) {
				t.Errorf("%+v: %v; parsed: %v", tt.lim, err, parseErr)
			}
		}
	}
}
