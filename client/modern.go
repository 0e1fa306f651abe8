// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modern is the protocol of a modern server. Each request carries all that the server
// may know of its client, and is independent of the others.
type modern struct {
	*setup
	// A modern server has no sessions. Each request identifies its client, so one
	// protocol, and on a pipe one process, serves all clients.
	wire       modernWire
	version    mcp.Version
	discovered *mcp.Result // the result of server/discover; nil if the version is configured
	group      goroutines  // maintain the shared streams of changes
}

// modernWire sends modern requests, over HTTP or over a pipe.
type modernWire interface {
	// call sends a request once and returns its terminal, or an error as soon as ctx
	// ends.
	call(ctx context.Context, p *modern, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error)

	// refreshHeaders is called when the server has refused a call because of its
	// headers. It reports whether to try again.
	refreshHeaders(ctx context.Context, p *modern, req *mcp.Request) bool

	// sharedPipe returns the pipe that all requests use, or nil over HTTP.
	sharedPipe() *modernPipe

	// For stats and close see Client.
	stats() session.CallStats
	close(ctx context.Context)
}

// newModernHTTP returns the protocol of a server over Streamable HTTP.
func newModernHTTP(e *endpoint, version mcp.Version) *modern {
	return &modern{setup: e.setup, wire: &modernHTTP{endpoint: e, numbers: newNumbers()}, version: version}
}

// newModernPipe returns the protocol of a server on a pipe, which it takes over.
func newModernPipe(p *pipe, version mcp.Version) *modern {
	return &modern{setup: p.setup, wire: newPipeWire(p), version: version}
}

func (p *modern) era() mcp.Era { return mcp.EraModern }

func (p *modern) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case methodSetLevel:
		// The level is sent with each request (server/utilities/logging).
		return emptyResult()
	// Notifications of a legacy client are dropped: a modern server does not store
	// roots, but asks for them during a request.
	case "notifications/roots/list_changed", methodTaskStatus:
		return nil, nil //nolint:nilnil // a notification has no terminal, and the modern era has no roots to announce
	case methodTaskResult, methodTaskList:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%s does not exist in %s", req.Method, p.version)
	case methodToolsCall:
		return p.callTool(ctx, req, caller)
	}
	return p.rounds(ctx, req, caller)
}

// call sends a request once and returns its terminal. If the server refuses it because
// of its headers, they are refreshed and it is sent once more.
func (p *modern) call(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, p.givenUp(ctx, mcp.NotDispatched)
	}
	res, err := p.wire.call(ctx, p, req, params, caller)
	if isRejected(err, headerMismatch) && p.wire.refreshHeaders(ctx, p, req) {
		return p.wire.call(ctx, p, req, params, caller)
	}
	return res, err
}

func (p *modern) outboundCall(req *mcp.Request, params *mcp.Object, caller mcp.Caller) outboundCall {
	return outboundCall{
		setup: p.setup, owner: p, req: req, caller: caller, token: params.Raw(mcp.MetaProgressToken),
		version: p.version, forwardable: isForwardable(req),
	}
}

// buildRequest returns the request of a call, with the client's description (basic,
// "_meta"). Ids and progress tokens are the gateway's on each connection, because
// several clients share it.
func (p *modern) buildRequest(req *mcp.Request, params *mcp.Object, id mcp.ID) jsonrpc.Pieces {
	var e mcp.Edit
	dropInvalidTraces(&e, params)
	e.SetText(mcp.MetaVersion, string(p.version))
	e.Set(mcp.MetaClientInfo, p.infoOf(req.Client))
	e.Set(mcp.MetaClientCapabilities, capabilitiesOf(req.Client, p.version))
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

// asked drops a request of the server. A modern server may ask only by a result
// (basic/patterns/mrtr), and a client must not answer.
func (p *modern) asked(ctx context.Context, _ *outboundCall, _ *mcp.Message) {
	p.log.DebugContext(ctx, "backend sent a request, which its revision forbids")
}

// abandon notifies the server over a pipe. Over HTTP, closing the stream cancels a call.
func (p *modern) abandon(call *session.Call) {
	if w := p.wire.sharedPipe(); w != nil {
		w.abandon(call)
	}
}

func (p *modern) stats() session.CallStats { return p.wire.stats() }

// discover sends server/discover, as a probe of a server of unknown era. bound limits
// the time.
func (p *modern) discover(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var err error
	p.discovered, err = p.call(ctx, &mcp.Request{Method: methodDiscover, Client: p.self()}, new(mcp.Object), noCaller{})
	return err
}

// discoverRequest returns the message of discover with the id.
func (p *modern) discoverRequest(id mcp.ID) jsonrpc.Pieces {
	return p.buildRequest(&mcp.Request{Method: methodDiscover, Client: p.self()}, new(mcp.Object), id)
}

// closeBackground closes the protocol if there is no context left.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: no context is left
func (p *modern) closeBackground() { p.close(context.Background()) }

func (p *modern) close(ctx context.Context) {
	p.group.cancel()
	p.wire.close(ctx)
	p.group.close()
}

func emptyResult() (*mcp.Result, error) { return mcp.NewResult([]byte("{}")) }
