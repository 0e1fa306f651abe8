// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// M199: event streams in every form of the grammar, with each line end, and cut at
// every byte: the events are those of the reference, without an incomplete one at the
// end.
//
// T9- 2026-07-28 basic/transports/streamable-http: "any line beginning with a colon is
// a comment that carries no event data; clients must ignore such lines and must not
// treat them as malformed input."
func TestM199EventStreamGrammar(t *testing.T) {
	const message = `{"jsonrpc":"2.0","id":1,"result":{}}`
	streams := map[string]struct {
		stream string
		want   []string // the data of the events, by hand
	}{
		"one value over two lines":        {"data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n", []string{"{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}"}},
		"no event field":                  {"data: " + message + "\n\n", []string{message}},
		"an event field":                  {"event: message\ndata: " + message + "\n\n", []string{message}},
		"comments":                        {": hello\n\n:\ndata: " + message + "\n: in between\n\n", []string{message}},
		"data without a colon":            {"data\n\ndata: " + message + "\n\n", []string{"", message}},
		"an id with NUL":                  {"id: a\x00b\ndata: " + message + "\n\n", []string{message}},
		"a last event without blank line": {"data: " + message + "\n\ndata: " + message + "\n", []string{message}},
		"half a line at the end":          {"data: " + message + "\n\ndata: {\"json", []string{message}},
		"priming":                         {"id: 1\nretry: 5\ndata:\n\ndata: " + message + "\n\n", []string{"", message}},
	}
	for name, tt := range streams {
		for kind, terminator := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				stream := strings.ReplaceAll(tt.stream, "\n", terminator)
				want, lastID := refEvents(stream)
				var data []string
				for _, e := range want {
					data = append(data, string(e.Data))
				}
				if !slices.Equal(data, tt.want) {
					t.Fatalf("the reference reads %q, want %q", data, tt.want)
				}
				for i, r := range readings(stream) {
					got, gotID := readEvents(t, r, 1<<10)
					if diff := cmp.Diff(want, got); diff != "" || gotID != lastID {
						t.Fatalf("reading %d, last id %q, want %q; events (-want +got):\n%s", i, gotID, lastID, diff)
					}
				}
			})
		}
	}
}
