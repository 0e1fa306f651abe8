// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"os"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// hiddenItem is the event of a request for an item that is not offered to its caller.
// The caller receives the same answer as for an item that does not exist.
const hiddenItem server.EventKind = "hidden_item"

// eventKinds returns all kinds of events that are counted. A test compares them with
// those of package server.
func eventKinds() []server.EventKind {
	return []server.EventKind{
		server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken, server.ForeignSession,
		server.UnknownSession, server.ForeignState, server.UnknownState, server.UnknownEventID, server.Limited, server.Stray, server.IdleCancel, hiddenItem, foreignTask,
	}
}

// isAudited reports whether an event indicates an attack. The other kinds also happen
// to well-behaved clients: sessions expire while clients sleep, and limits are reached.
func isAudited(kind server.EventKind) bool {
	switch kind {
	case server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken,
		server.ForeignSession, server.ForeignState, server.UnknownEventID, hiddenItem, foreignTask:
		return true
	default:
		return false
	}
}

// noteEvent counts an event, and records it if it concerns security. It does not block.
// For two kinds that the client cannot distinguish it takes the same time, so that the
// duration of a refusal does not reveal the kind.
func (g *Gateway) noteEvent(ctx context.Context, e server.Event) {
	g.metrics.Event(ctx, string(e.Kind))
	switch {
	case slices.Contains([]server.EventKind{server.ForeignSession, server.UnknownSession, server.ForeignState, server.UnknownState}, e.Kind):
		g.audit.Consider(ctx, func() (audit.Entry, bool) { return entryOf(&e), isAudited(e.Kind) })
	case isAudited(e.Kind):
		g.audit.Record(ctx, entryOf(&e))
	}
}

func entryOf(e *server.Event) audit.Entry {
	return audit.Entry{Event: string(e.Kind), Principal: e.Principal, Remote: e.Remote, Session: e.Session, Detail: e.Detail}
}

// noteHidden records a request for a named item that exists but is hidden from the
// caller. Whether such an item exists is looked up after the caller has been answered,
// or may have been.
func (g *Gateway) noteHidden(ctx context.Context, v *view, req *mcp.Request, w lookup) {
	e := server.Event{Kind: hiddenItem, Principal: req.Principal}
	if req.Scope != nil {
		e.Session = req.Scope.Key()
	}
	ctx = context.WithoutCancel(ctx)
	kind, name := w.kind, w.name // does not retain the parameters
	g.audit.Consider(ctx, func() (audit.Entry, bool) {
		if !v.catalog.Hides(kind, name) {
			return audit.Entry{}, false
		}
		e.Detail = kind.String() + " " + quoteName(name)
		g.metrics.Event(ctx, string(e.Kind))
		return entryOf(&e), true
	})
}

// quoteName quotes and shortens a name received from outside for the record.
func quoteName(name string) string {
	const most = 200 // as for the texts of a server.Event
	quoted := strconv.QuoteToASCII(name)
	return quoted[:min(len(quoted), most)]
}

// openAudit opens the file of the audit record. It returns nil if none is configured. A
// reload opens the file again, so that a file that was moved away is released.
func openAudit(cfg *config.Config) (*os.File, error) {
	if cfg.Audit.File == "" {
		return nil, nil
	}
	file, err := audit.Open(cfg.Audit.File)
	if err != nil {
		return nil, config.Problems{{
			Path:    "audit.file",
			Message: "cannot write the audit record: " + err.Error(),
			Hint:    "use a file in an existing folder that the gateway may write to",
		}}
	}
	return file, nil
}
