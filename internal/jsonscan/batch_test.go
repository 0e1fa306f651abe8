// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// "MCP implementations MUST support receiving JSON-RPC batches" (2025-03-26,
// basic, "Batching"): J11.
func TestSplitBatch(t *testing.T) {
	for in, want := range map[string][]string{
		`[{"a":1}]`:                 {`{"a":1}`},
		` [ {"a":[1,2]} , 7,"]" ] `: {`{"a":[1,2]}`, `7`, `"]"`},
		`[[],[[]],null]`:            {`[]`, `[[]]`, `null`},
	} {
		parts, err := SplitBatch([]byte(in), 3, Limits{})
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		var got []string
		for _, p := range parts {
			got = append(got, string(p))
			if cap(p) != len(p) {
				t.Errorf("%s: appending to %s would overwrite the next", in, p)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
		if !IsBatch([]byte(in)) {
			t.Errorf("IsBatch(%s) is false", in)
		}
	}
}

func TestSplitBatchRefuses(t *testing.T) {
	for _, tt := range []struct {
		in        string
		malformed bool
		want      string
	}{
		{``, true, "missing JSON text at byte 0; send one JSON object"},
		{`{}`, false, "not a batch at byte 0; send an array of messages"},
		{` []`, false, "the batch is empty at byte 1; send at least one message"},
		{`[1,2,3]`, false, "the batch has more than 2 messages at byte 5; send fewer at once"},
		{`[1,]`, true, "unexpected ']' at byte 3; expected a value"},
		{`[1 2]`, true, "unexpected '2' at byte 3; expected ',' or ']' after a message"},
		{`[1`, true, "the JSON text ends too early at byte 2; expected ',' or ']' after a message"},
		{`[1] 2`, true, "unexpected '2' after the end of the JSON text at byte 4; send one value"},
		{`[` + strings.Repeat("[", 129) + strings.Repeat("]", 130), false, "nesting is deeper than 128 at byte 129; send a flatter message"},
		{`[{"a":1,"b":2},{"a":3,"b":4}]`, false, "the message has too many members at byte 22; send a smaller message"},
	} {
		parts, err := SplitBatch([]byte(tt.in), 2, Limits{Members: 3})
		pe, ok := errors.AsType[*Error](err)
		if !ok || pe.Error() != tt.want || pe.Malformed != tt.malformed || parts != nil {
			t.Errorf("%.40s: %q, %v; want %s (malformed %v)", tt.in, parts, err, tt.want, tt.malformed)
		}
	}
	for _, in := range []string{``, ` `, `{}`, `"["`, "\x00["} {
		if IsBatch([]byte(in)) {
			t.Errorf("IsBatch(%q) is true", in)
		}
	}
}

func FuzzSplitBatch(f *testing.F) {
	for _, seed := range []string{`[{"a":1},[2]]`, `[]`, `[1,2,3,4,5]`, `[1`, ` [ "]" , null ] `, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := SplitBatch(data, 4, Limits{})
		want := elements(data)
		if (err == nil) != (len(want) > 0 && len(want) <= 4 && jsontest.DepthOf(data) <= defaultDepth+1) {
			t.Fatalf("SplitBatch(%q): %v; the oracle has %d elements", data, err, len(want))
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, parts); diff != "" || !IsBatch(data) {
			t.Fatalf("SplitBatch(%q) (-want +got):\n%s", data, diff)
		}
	})
}

// elements returns the elements of a JSON array, and nothing for other values.
func elements(data []byte) [][]byte {
	if !jsontest.IsJSON(data) {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(jsontest.ReplaceHalfPairs(data)), jsontext.AllowDuplicateNames(true))
	if first, err := d.ReadToken(); err != nil || first.Kind() != '[' {
		return nil
	}
	var out [][]byte
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		end := int(d.InputOffset())
		out = append(out, data[end-len(value):end])
	}
	return out
}
