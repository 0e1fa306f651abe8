// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"os"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/observe"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// hiddenItem is the event of a request for something that is not offered to its
// caller. The caller gets the answer for what does not exist.
const hiddenItem server.EventKind = "hidden_item"

// eventKinds are all events that are counted. A test compares them with those that
// the server has.
func eventKinds() []server.EventKind {
	return []server.EventKind{
		server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken, server.ForeignSession,
		server.UnknownSession, server.ForeignState, server.UnknownState, server.UnknownEventID, server.Limited, server.Stray, server.IdleCancel, hiddenItem, foreignTask,
	}
}

// isAudited tells what somebody who means no good does from what happens to
// anybody: sessions end while their clients sleep, and limits are met.
func isAudited(kind server.EventKind) bool {
	switch kind {
	case server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken,
		server.ForeignSession, server.ForeignState, server.UnknownEventID, hiddenItem, foreignTask:
		return true
	default:
		return false
	}
}

// noteEvent counts an event, and records it where it concerns security. It waits
// for nothing. Of the two kinds that are one to the client it takes the same time:
// how long a refusal takes tells nobody which of them it was.
func (g *Gateway) noteEvent(ctx context.Context, e server.Event) {
	g.metrics.Event(ctx, string(e.Kind))
	switch {
	case slices.Contains([]server.EventKind{server.ForeignSession, server.UnknownSession, server.ForeignState, server.UnknownState}, e.Kind):
		g.audit.Consider(ctx, func() (observe.Entry, bool) { return entryOf(&e), isAudited(e.Kind) })
	case isAudited(e.Kind):
		g.audit.Record(ctx, entryOf(&e))
	}
}

func entryOf(e *server.Event) observe.Entry {
	return observe.Entry{Event: string(e.Kind), Principal: e.Principal, Remote: e.Remote, Session: e.Session, Detail: e.Detail}
}

// noteHidden records that a request asked for something by name that there is,
// and that its caller is not to see. Whether there is any is looked up when the
// caller has been answered, or may have been.
func (g *Gateway) noteHidden(ctx context.Context, v *view, req *mcp.Request, w wanted) {
	e := server.Event{Kind: hiddenItem, Principal: req.Principal}
	if req.Scope != nil {
		e.Session = req.Scope.Key()
	}
	ctx = context.WithoutCancel(ctx)
	kind, name := w.kind, w.name // and not all of its parameters
	g.audit.Consider(ctx, func() (observe.Entry, bool) {
		if !v.catalog.Hides(kind, name) {
			return observe.Entry{}, false
		}
		e.Detail = kind.String() + " " + quoteShort(name)
		g.metrics.Event(ctx, string(e.Kind))
		return entryOf(&e), true
	})
}

// quoteShort returns a name from outside as a line of a record may hold it.
func quoteShort(name string) string {
	const most = 200 // as the texts of a server.Event
	quoted := strconv.QuoteToASCII(name)
	return quoted[:min(len(quoted), most)]
}

// openAudit opens the file of the audit record, nil where there is to be none. A
// reload opens it anew, so that one that was moved away is let go.
func openAudit(cfg *config.Config) (*os.File, error) {
	if cfg.Audit.File == "" {
		return nil, nil
	}
	file, err := observe.OpenAudit(cfg.Audit.File)
	if err != nil {
		return nil, Problems{{
			Path:    "audit.file",
			Message: "the audit record cannot be written: " + err.Error(),
			Hint:    "name a file in a folder that exists and that the gateway may write to",
		}}
	}
	return file, nil
}
