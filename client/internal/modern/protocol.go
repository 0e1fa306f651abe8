// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package modern is the client's side of the modern era (2026-07-28): requests that are
// independent of each other, over HTTP or over one pipe.
//
// [Protocol] builds the requests, repeats them with answers to the server's input
// requests, and serves subscriptions/listen. Over HTTP a call is one POST, sent and read
// by the calling goroutine; over a pipe, messages are routed to their calls by the ids
// that they name.
package modern

import (
	"context"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Protocol is the protocol of a modern server. Its methods may be called concurrently.
//
// A modern server has no sessions. Each request carries all that the server may know of
// its client, and is independent of the others. So one protocol, and on a pipe one
// process, serves all clients.
type Protocol struct {
	*call.Setup
	Discovered *mcp.Result // the result of server/discover; nil if the version is configured

	wire    conn
	version mcp.Version
	group   call.Goroutines // maintain the shared streams of changes, and cancel tasks
}

// conn sends modern requests, over HTTP or over a pipe.
type conn interface {
	// call sends a request and returns its terminal, or an error as soon as ctx ends. It
	// sends the request again only if the transport requires that.
	call(ctx context.Context, p *Protocol, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error)

	// listen serves a listen for want. See Protocol.Listen.
	listen(ctx context.Context, p *Protocol, req *mcp.Request, want listen.Filter, sink mcp.Caller) error

	// abandon notifies the server, if necessary, that a call is cancelled.
	abandon(c *session.Call)

	// For stats and close see Protocol.
	stats() session.CallStats
	close(ctx context.Context)
}

// NewHTTP returns the protocol of a server over Streamable HTTP.
func NewHTTP(e *httpconn.Endpoint, version mcp.Version) *Protocol {
	return &Protocol{Setup: e.Setup, wire: newHTTPConn(e), version: version}
}

// NewPipe returns the protocol of a server on a pipe, which it takes over.
func NewPipe(p *stdio.Pipe, version mcp.Version) *Protocol {
	return &Protocol{Setup: p.Setup, wire: newPipeConn(p), version: version}
}

// Opening returns how the server's process became ready, which it is now. It reports false
// if there is no process.
func (p *Protocol) Opening() (call.Opening, bool) {
	if w, ok := p.wire.(*pipeConn); ok && !w.Launched.IsZero() {
		return w.Opening(), true
	}
	return call.Opening{}, false
}

// Era returns the modern era.
func (p *Protocol) Era() mcp.Era { return mcp.EraModern }

// Serve sends a request and returns its terminal. It asks the caller for the input that
// the server requests, and repeats the request with that. The error may be a
// call.Rejected, about which the Client decides.
func (p *Protocol) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.Passed {
		return p.pass(ctx, req, caller)
	}
	switch req.Method {
	case call.MethodSetLevel:
		// The level is sent with each request (server/utilities/logging).
		return call.EmptyResult()
	// Notifications of a legacy client are dropped: a modern server does not store
	// roots, but asks for them during a request.
	case "notifications/roots/list_changed", call.MethodTaskStatus:
		return nil, nil //nolint:nilnil // a notification has no terminal, and the modern era has no roots to announce
	case call.MethodTaskResult, call.MethodTaskList:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%s does not exist in %s", req.Method, p.version)
	case call.MethodToolsCall:
		return p.callTool(ctx, req, caller)
	}
	return p.rounds(ctx, req, caller)
}

// pass sends a request with a method of an extension once. A notification is dropped: a modern server
// receives none but cancellations.
func (p *Protocol) pass(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if strings.HasPrefix(req.Method, "notifications/") {
		return nil, nil //nolint:nilnil // a notification has no terminal
	}
	return p.wire.call(ctx, p, req, &req.Params, caller)
}

func (p *Protocol) outboundCall(req *mcp.Request, params *mcp.Object, caller mcp.Caller) call.Call {
	return call.Call{
		Setup: p.Setup, Owner: p, Req: req, Caller: caller, Token: params.Raw(mcp.MetaProgressToken),
		Version: p.version, Forwardable: call.IsForwardable(req),
	}
}

// buildRequest returns the request of a call, with the client's description (basic,
// "_meta"). IDs and progress tokens are the gateway's on each connection, because
// several clients share it.
func (p *Protocol) buildRequest(req *mcp.Request, params *mcp.Object, id mcp.ID) jsonrpc.Pieces {
	var e mcp.Edit
	call.DropInvalidTraces(&e, params)
	e.SetText(mcp.MetaVersion, string(p.version))
	e.Set(mcp.MetaClientInfo, p.InfoOf(req.Client))
	e.Set(mcp.MetaClientCapabilities, call.CapabilitiesOf(req.Client, p.version))
	if level := requestedLevel(req.LogLevel); level == mcp.LogNone {
		e.Delete(mcp.MetaLogLevel)
	} else {
		e.SetText(mcp.MetaLogLevel, level.String())
	}
	if params.Has(mcp.MetaProgressToken) {
		e.Set(mcp.MetaProgressToken, id.AppendTo(nil))
	}
	return jsonrpc.EditedRequest(id, req.Method, &e, params)
}

// requestedLevel returns the log level of a modern request. If the client has set none,
// it is the level at which most servers log.
func requestedLevel(level mcp.LogLevel) mcp.LogLevel {
	if level == mcp.LogUnset {
		return mcp.LogInfo
	}
	return level
}

// Asked drops a request of the server. A modern server may ask only by a result
// (basic/patterns/mrtr), and a client must not answer.
func (p *Protocol) Asked(ctx context.Context, _ *call.Call, _ *mcp.Message) {
	p.Log.DebugContext(ctx, "backend sent a request, which its revision forbids")
}

// Abandon notifies the server, if necessary, that a call is cancelled.
func (p *Protocol) Abandon(c *session.Call) { p.wire.abandon(c) }

// Stats returns the counters of messages.
func (p *Protocol) Stats() session.CallStats { return p.wire.stats() }

// Discover sends server/discover, as a probe of a server of unknown era, on behalf of the
// sender of a request. bound limits the time.
func (p *Protocol) Discover(ctx context.Context, of *mcp.Request, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	req := p.OnBehalfOf(of, call.MethodDiscover)
	var err error
	p.Discovered, err = p.wire.call(ctx, p, req, new(mcp.Object), call.NoCaller{})
	return err
}

// DiscoverRequest returns the message of discover with the id.
func (p *Protocol) DiscoverRequest(id mcp.ID) jsonrpc.Pieces {
	return p.buildRequest(&mcp.Request{Method: call.MethodDiscover, Client: p.Self()}, new(mcp.Object), id)
}

// CloseBackground closes the protocol if there is no context left.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: no context is left
func (p *Protocol) CloseBackground() { p.Close(context.Background()) }

// Close cancels what is in progress. It returns when nothing of the protocol is left.
func (p *Protocol) Close(ctx context.Context) {
	p.group.Cancel()
	p.wire.close(ctx)
	p.group.Close()
}
