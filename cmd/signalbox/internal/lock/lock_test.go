// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// The running gateway may have approved what the lock file does not have any more, for example while a guarded change of
// it waits: it is new, and not a change from nothing.
func TestCheckOfALockFileThatIsNotApplied(t *testing.T) {
	t.Parallel()
	approved := signalbox.Definition{Server: "shop", Kind: string(pins.Tool), Name: "list", State: string(pins.Approved), Listed: `{"name":"list"}`}
	other := approved
	other.Name, other.Listed = "buy", `{"name":"buy"}`
	l := &locked{
		src: source.Source{Path: "signalbox.yaml"}, pinned: pins.NewLock(), digests: pins.NewDigester(nil),
		now: &signalbox.Definitions{Servers: []signalbox.DefinedServer{{Name: "shop", Known: true}}, Items: []signalbox.Definition{approved, other}},
	}
	l.pinned.Approve(key(&other), l.digests.Of([]byte(`{"name":"buy","title":"Buy"}`)))
	e := commandtest.New(t, "")
	if err := l.check(e.Env); err == nil {
		t.Error("everything is approved")
	}
	want := "tool list of shop: new\n  /name\n    + list\n" +
		"tool buy of shop: changed, and the approved text is missing\n  /name\n    + buy\n"
	if got := e.Out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
