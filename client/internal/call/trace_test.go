// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

const goodParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Valid traces are forwarded unmodified, to the byte. Only invalid ones are omitted,
// whatever is beside them.
//
// H18+ 2026-07-28 basic/index: "When present, their values MUST follow W3C Trace
// Context and W3C Baggage formats respectively."
//
// H18- 2026-07-28 basic/index: "When present, their values MUST follow W3C Trace
// Context and W3C Baggage formats respectively."
func TestTraceFormats(t *testing.T) {
	many := func(n int, format, comma string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, comma)
	}
	tests := []struct {
		key  string
		good []string
		bad  []string
	}{
		{
			"traceparent",
			[]string{goodParent, "00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("f", 16) + "-ff", "cc" + goodParent[2:], "cc" + goodParent[2:] + "-what-comes-later"},
			[]string{
				"", "x", goodParent[:54], goodParent + "0", goodParent + "-more", "cc" + goodParent[2:] + "more", "ff" + goodParent[2:],
				strings.ToUpper(goodParent), "00-" + strings.Repeat("0", 32) + goodParent[35:], goodParent[:36] + strings.Repeat("0", 16) + "-01",
				strings.Replace(goodParent, "-", "_", 1), goodParent[:52] + "_01", goodParent[:35] + "_" + goodParent[36:], goodParent[:53] + "0g",
				" " + goodParent, goodParent + "\n", "cc" + goodParent[2:] + "-\u00e4", "cc" + goodParent[2:] + "-" + strings.Repeat("x", maxTrace),
			},
		},
		{
			"tracestate",
			[]string{"a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1, b=2\t,,c=3", "1@v-1/x*_=a b", many(32, "k%d=v", ","), "a=" + strings.Repeat("x", 256)},
			[]string{
				"", " ", ",", "a", "a=", "=1", "A=1", "_a=1", "a=1,a=2", "a=1=2", "a=\u00e4", "a=\x01", many(33, "k%d=v", ","),
				strings.Repeat("k", 257) + "=v", "a=" + strings.Repeat("x", 257), many(32, "k%d="+strings.Repeat("v", 256), ","),
			},
		},
		{
			"baggage",
			[]string{"a=1", "key1=value1;property1;p2=x,key2 = value2, Key_3=%20", "a=", many(180, "k%d=v", ",")},
			[]string{"", ",", "a", "=1", "a=1,", "a b=1", "a=1 2", `a="1"`, `a=\`, "a=\u00e4", "a=\x7f", "a=1;", "a=1;p q", "(=1", many(181, "k%d=v", ","), "a=" + strings.Repeat("x", maxTrace)},
		},
	}
	for _, tt := range tests {
		meta := func(value string) string {
			parent := `"traceparent" : "` + goodParent + `",`
			if tt.key == "traceparent" {
				parent = ""
			}
			return `{ "own/key":{"n":1.0},` + parent + ` "` + tt.key + `":` + value + `}`
		}
		for _, text := range tt.good {
			in := meta(quotedJSON(text))
			if got := string(validTraceMeta([]byte(in))); got != in {
				t.Errorf("%s %.80q:\n got %s\nwant it as it came", tt.key, text, got)
			}
		}
		values := []string{"null", "7", "{}", `["` + goodParent + `"]`, "true"}
		for _, text := range tt.bad {
			values = append(values, quotedJSON(text))
		}
		for _, value := range values {
			got := string(validTraceMeta([]byte(meta(value))))
			if strings.Contains(got, `"`+tt.key+`"`) || !strings.Contains(got, `{ "own/key":{"n":1.0}`) {
				t.Errorf("%s %.80s is kept, or more than it is lost: %.200s", tt.key, value, got)
			}
		}
	}
}

func quotedJSON(s string) string { return string(jsonscan.AppendString(nil, s)) }

// Members that depend on each other, and names in another spelling.
func TestTracesOfOneRequest(t *testing.T) {
	const parent, state = `"traceparent":"` + goodParent + `"`, `"tracestate":"a=1"`
	for _, tt := range []struct{ name, meta, want string }{
		{"none", ``, ``},
		{"nothing of a trace", `{"a":1}`, `{"a":1}`},
		{"a state before its parent", `{` + state + `,` + parent + `}`, `{` + state + `,` + parent + `}`},
		{"a state without a parent", `{"a":1,` + state + `}`, `{"a":1}`},
		{"a state of a parent that is none", `{"traceparent":"x",` + state + `,"baggage":"k=v"}`, `{"baggage":"k=v"}`},
		{"nothing is left", `{"traceparent":"x"}`, `{}`},
		{"escaped", `{"trac\u0065parent":"x","b":2}`, `{"b":2}`},
		{"escaped value", `{"traceparent":"\u0030` + goodParent[1:] + `"}`, `{"traceparent":"\u0030` + goodParent[1:] + `"}`},
		{"another letter case is another name", `{"Traceparent":"x","BAGGAGE":7}`, `{"Traceparent":"x","BAGGAGE":7}`},
		{"deeper is nobody's", `{"a":{"traceparent":"x"}}`, `{"a":{"traceparent":"x"}}`},
		{"no object", `7`, `7`},
	} {
		if got := string(validTraceMeta([]byte(tt.meta))); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}
