// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// "One request inside the size limit exhausts the server" (GHSA-46jr-4wx8-v453): here
// the work for each byte is bounded. Each of these messages overloaded some reader, and
// would take minutes with quadratic work.
func TestHostileMessagesTakeLinearTime(t *testing.T) {
	const n = 1 << 18
	repeat := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	for _, tt := range []struct{ name, in string }{
		{"brackets", repeat("[", n)},
		{"braces", repeat(`{"":`, n)},
		{"brackets inside of params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + repeat("[", n)},
		{"quotes", repeat(`"`, n)},
		{"backslashes", `{"jsonrpc":"2.0","id":1,"method":"` + repeat(`\\`, n)},
		{"escapes", `{"jsonrpc":"2.0","id":1,"method":"` + repeat(`\u0041`, n) + `"}`},
		{"halves of pairs", `{"jsonrpc":"2.0","id":1,"method":"` + repeat(`\ud800`, n) + `"}`},
		{"white space", repeat(" \n\t\r", n)},
		{"white space inside", `{"jsonrpc"` + repeat(" ", n) + `:"2.0","id":1,"method":"m"}`},
		{"digits", repeat("9", n)},
		{"zeros", `{"jsonrpc":"2.0","id":0.` + repeat("0", n) + `,"method":"m"}`},
		{"an exponent", `{"jsonrpc":"2.0","id":1e` + repeat("9", n) + `,"method":"m"}`},
		{"a long id", `{"jsonrpc":"2.0","id":"` + repeat("x", n) + `","method":"m"}`},
		{"a long name", `{"jsonrpc":"2.0","id":1,"method":"m","` + repeat("x", n) + `":0}`},
		{"ids behind a mistake", `{"jsonrpc":"2.0","params":[],"method":"m"` + repeat(`,"id":"`+strings.Repeat("x", 2000)+`"`, n) + `}`},
		{"ids that are none behind a mistake", `{"jsonrpc":"2.0","params":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}` + repeat(`,"id":1.5`, n) + `}`},
		{"escaped names", `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + repeat(`"\u0061\u0061":0,`, n) + `"b":0}}`},
		{"variants of names", `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + repeat(`"namf":0,`, n) + `"b":0}}`},
		{"bytes that are no text", repeat("\xff", n)},
		{"a string that is no text", `{"jsonrpc":"2.0","id":1,"method":"` + repeat("é", n) + "\xff" + `"}`},
		{"NUL", repeat("\x00", n)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse([]byte(tt.in), Limits{})
			if err == nil && tt.name != "white space inside" && tt.name != "escapes" {
				t.Errorf("accepted as %v", m.Kind)
			}
			if err != nil {
				checkOneLine(t, err)
			}
			if _, err := ParseID([]byte(tt.in)); err == nil {
				t.Error("taken for an id")
			}
			if _, err := jsonscan.SplitBatch([]byte(tt.in), 100, jsonscan.Limits{}); err == nil {
				t.Error("taken for a batch")
			}
		})
	}
}

// Rejections allocate little: a message of a megabyte does not cost another one.
func TestRejectionAllocations(t *testing.T) {
	for name, in := range map[string]string{
		"deep":     `{"jsonrpc":"2.0","method":"m","params":{"a":` + strings.Repeat("[", 1<<20) + `}`,
		"dense":    strings.TrimSuffix(jsontest.DenseResult(1<<20), "}"),
		"text":     strings.TrimSuffix(jsontest.TextResult(1<<20), "}"),
		"no UTF-8": jsontest.TextResult(1 << 20)[:1<<19] + "\xff" + jsontest.TextResult(1 << 20)[1<<19:],
	} {
		data := []byte(in)
		got := testing.AllocsPerRun(5, func() {
			if _, err := Parse(data, Limits{}); err == nil {
				t.Fatal("accepted")
			}
		})
		if got > 8 { // the error, its texts, an id
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// Each limit may be reached but not exceeded, wherever it is counted.
func TestMembersLimitIsExact(t *testing.T) {
	const three = `{"jsonrpc":"2.0","id":1,"method":"m"}` // three members
	for _, tt := range []struct {
		name, in string
		members  int // number of members
	}{
		{"the envelope", three, 3},
		{"params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"b":2}}`, 6},
		{"below", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":{}},{"c":0,"c":1}]}}`, 8},
		{"a result", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"a":1}}}`, 5},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"a":1}}}`, 7},
	} {
		if _, err := Parse([]byte(tt.in), Limits{Members: tt.members}); err != nil {
			t.Errorf("%s: %d members of %d: %v", tt.name, tt.members, tt.members, err)
		}
		_, err := Parse([]byte(tt.in), Limits{Members: tt.members - 1})
		if pe, ok := errors.AsType[*ParseError](err); !ok || pe.Exceeded != LimitMembers {
			t.Errorf("%s: %d members of %d: %v", tt.name, tt.members, tt.members-1, err)
		}
		batch := fmt.Sprintf("[%s,%s]", tt.in, tt.in)
		if _, err := jsonscan.SplitBatch([]byte(batch), 2, jsonscan.Limits{Members: 2 * tt.members}); err != nil {
			t.Errorf("%s, twice in a batch: %v", tt.name, err)
		}
		if _, err := jsonscan.SplitBatch([]byte(batch), 2, jsonscan.Limits{Members: 2*tt.members - 1}); err == nil {
			t.Errorf("%s, twice in a batch, which share the limit: no error", tt.name)
		}
	}
}

func TestDepthLimitIsExact(t *testing.T) {
	for _, tt := range []struct {
		in    string
		depth int // depth
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m"}`, 1},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, 2},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`, 2},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1}}}`, 3},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"ref":{"name":"x"}}}`, 3},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[[0]]}}`, 4},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":[0]}]}}`, 5},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":[0]}}`, 3},
		{`{"jsonrpc":"2.0","id":1,"error":{"data":[0]}}`, 3},
		{`{"jsonrpc":"2.0","id":1,"method":"m","x":[[0]]}`, 3},
	} {
		if _, err := Parse([]byte(tt.in), Limits{Depth: tt.depth}); err != nil || jsontest.DepthOf([]byte(tt.in)) != tt.depth {
			t.Errorf("%s within %d: %v", tt.in, tt.depth, err)
		}
		if tt.depth == 1 {
			continue // zero means the default
		}
		_, err := Parse([]byte(tt.in), Limits{Depth: tt.depth - 1})
		want := fmt.Sprintf("nesting is deeper than %d", tt.depth-1)
		if pe, ok := errors.AsType[*ParseError](err); !ok || pe.Reason != want || pe.Code != CodeInvalidRequest || pe.Exceeded != LimitDepth {
			t.Errorf("%s within %d: %v, want %s", tt.in, tt.depth-1, err, want)
		}
	}
}

// ListDepth applies to the lists of a result and nowhere else.
func TestListDepth(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	lim := Limits{Depth: 6, ListDepth: 10}
	for in, ok := range map[string]bool{
		`{"result":{"tools":` + deep(8) + `}}`:                          true,
		`{"result":{"tools":` + deep(9) + `}}`:                          false,
		`{"result":{"resources":` + deep(8) + `}}`:                      true,
		`{"result":{"resourceTemplates":` + deep(8) + `}}`:              true,
		`{"result":{"prompts":` + deep(8) + `}}`:                        true,
		`{"result":{"t\u006fols":` + deep(8) + `}}`:                     true,
		`{"result":{"tools":{"a":` + deep(7) + `}}}`:                    true,
		`{"result":{"tools":` + deep(8) + `,"x":` + deep(4) + `}}`:      true,
		`{"result":{"tools":` + deep(8) + `,"x":` + deep(5) + `}}`:      false,
		`{"result":{"x":` + deep(5) + `,"tools":` + deep(8) + `}}`:      false,
		`{"result":{"content":` + deep(5) + `}}`:                        false,
		`{"result":{"_meta":{"tools":` + deep(4) + `}}}`:                false,
		`{"result":{"x":{"tools":` + deep(4) + `}}}`:                    false,
		`{"method":"m","params":{"tools":` + deep(5) + `}}`:             false,
		`{"tools":` + deep(6) + `,"result":{}}`:                         false,
		`{"error":{"code":1,"message":"","tools":` + deep(5) + `}}`:     false,
		`{"result":{"tools":` + deep(8) + `}, "tools":` + deep(6) + `}`: false,
	} {
		in = `{"jsonrpc":"2.0","id":1,` + in[1:]
		_, err := Parse([]byte(in), lim)
		pe, _ := errors.AsType[*ParseError](err)
		if ok && err != nil || !ok && (pe == nil || pe.Exceeded != LimitDepth) {
			t.Errorf("%s: %v, want ok %v", in, err, ok)
		}
		parts, err := jsonscan.SplitBatch([]byte(`[`+in+`]`), 1, jsonscan.Limits(lim))
		if ok && (err != nil || len(parts) != 1) {
			t.Errorf("%s in a batch: %v", in, err)
		}
	}
	// Lists have a bound too; by default it is that of other text.
	for _, lim := range []Limits{{ListDepth: 1 << 30}, {Depth: 128, ListDepth: 5}} {
		for depth, ok := range map[int]bool{126: true, 127: lim.Depth == 0, 1022: lim.Depth == 0, 1023: false, 1 << 20: false} {
			_, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":`+deep(depth)+`}}`), lim)
			if (err == nil) != ok {
				t.Errorf("%+v: a list %d deep: %v", lim, depth, err)
			}
		}
	}
}

// FuzzListDepth compares both limits with the depths that a decoder finds.
func FuzzListDepth(f *testing.F) {
	for _, seed := range []string{`{"tools":[[[[[[0]]]]]]}`, `{"a":[[[0]]],"prompts":[{"x":{"tools":[{}]}}]}`, `{"resources":"[[[[[[","b":[[[]]]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, result string) {
		data := []byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`)
		if !jsontest.IsJSON(data) {
			return
		}
		m, err := Parse(data, Limits{Depth: 4, ListDepth: 6})
		pe, _ := errors.AsType[*ParseError](err)
		exceeded := pe != nil && pe.Exceeded == LimitDepth
		if err == nil && isDeeper(m.Raw, 4, 6) || exceeded && !isDeeper(data, 4, 6) {
			t.Fatalf("Parse(%s): %v", data, err)
		}
	})
}

// isDeeper reports whether a message is nested deeper than most, or deeper than inLists
// in the lists of its result.
func isDeeper(data []byte, most, inLists int) bool {
	list := regexp.MustCompile(`^/result/(tools|resources|resourceTemplates|prompts)(/|$)`)
	d := jsontext.NewDecoder(bytes.NewReader(jsontest.ReplaceHalfPairs(data)), jsontext.AllowDuplicateNames(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		if kind := token.Kind(); kind != '{' && kind != '[' {
			continue
		}
		limit := most
		if list.MatchString(string(d.StackPointer())) {
			limit = inLists
		}
		if d.StackDepth() > limit {
			return true
		}
	}
}

// Exceeded names the limit that was exceeded, and nothing for errors under any limits
// and for fixed bounds.
func TestExceeded(t *testing.T) {
	lim := Limits{Depth: 3, Members: 4}
	for in, want := range map[string]Limit{
		`[0]`:                                 LimitNone,
		`[0,0]`:                               LimitNone,
		`[0,0,0]`:                             LimitBatch,
		`[[[[0]]]]`:                           LimitNone,
		`[[[[[0]]]]]`:                         LimitDepth,
		`[[[[[0`:                              LimitDepth,
		`[{"a":0,"b":0,"c":0,"d":0}]`:         LimitNone,
		`[{"a":0,"b":0,"c":0,"d":0,"e":0}]`:   LimitMembers,
		`[{"a":0,"b":0},{"c":0,"d":0,"e":0}]`: LimitMembers,
		`[]`:                                  LimitNone,
		`[0`:                                  LimitNone,
		`[0] x`:                               LimitNone,
		`{}`:                                  LimitNone,
		``:                                    LimitNone,
		`[{"` + strings.Repeat("a", (64<<10)) + `":0}]`: LimitNone,
	} {
		_, err := jsonscan.SplitBatch([]byte(in), 2, jsonscan.Limits(lim))
		var got Limit
		if pe, ok := errors.AsType[*jsonscan.Error](err); ok {
			got = Limit(pe.Exceeded)
		}
		if got != want {
			t.Errorf("%.40s: limit %d exceeded (%v), want %d", in, got, err, want)
		}
	}
}
