// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/listen"
)

// A listen is not notified of a resource that was not agreed on, even if the resource has
// changed before. It is notified of those below an agreed one.
func TestNarrowDropsUpdates(t *testing.T) {
	var f listen.Feed
	l := f.Add(listen.Filter{URIs: []string{"x:/a", "x:/b"}})
	defer f.Remove(l)
	for _, uri := range []string{"x:/a", "x:/b", "x:/a/1", "x:/b/1"} {
		f.UpdateResource(listen.ResourceUpdated(uri))
	}
	f.Narrow(l, listen.Filter{URIs: []string{"x:/b"}})
	f.UpdateResource(listen.ResourceUpdated("x:/a"))
	var got []string
	for _, n := range f.Take(l).Updated {
		got = append(got, string(n.Params.Bytes()))
	}
	if want := []string{`{"uri":"x:/b"}`, `{"uri":"x:/b/1"}`}; !slices.Equal(got, want) {
		t.Errorf("updates %q, want %q", got, want)
	}
}
