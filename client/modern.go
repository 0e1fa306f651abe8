// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modern speaks to a server of the modern era: each request says all that the
// server may know of its client, and stands alone.
type modern struct {
	*setup
	// A modern server knows no sessions. What ties requests to a client is in each
	// of them, so that one protocol, and on a pipe one process, serves all clients.
	wire       modernWire
	version    mcp.Version
	discovered *mcp.Result // of server/discover; nil where the version is pinned
	group      goroutines  // who keeps the streams of changes of scopes
}

// modernWire carries modern requests: over HTTP, or over a pipe.
type modernWire interface {
	// open makes the cell of a call.
	open(method string) (*session.Call, error)

	// carry sends the call's request and returns the call's terminal, or an error as
	// soon as ctx ends.
	carry(ctx context.Context, f outboundCall, out outboundRequest) (*mcp.Result, error)

	// abandon tells the server that a call is given up, without waiting.
	abandon(call *session.Call)

	// refreshHeaders is called when the server has refused a call for the headers that
	// came with it. It reports whether another attempt is worth it.
	refreshHeaders(ctx context.Context, p *modern, req *mcp.Request) bool

	// onePipe returns the pipe, if all requests go over one, and nil over HTTP.
	sharedPipe() *modernPipe

	// stats and close: see Client.
	stats() session.CallStats
	close(ctx context.Context)
}

// outboundRequest is a request as it goes to the server.
type outboundRequest struct {
	version mcp.Version
	params  *mcp.Object // without what describes the client
	msg     mcp.Pieces
	logs    mcp.LogLevel // the lowest level of log messages that it asks for, LogNone if for none
}

func (p *modern) era() mcp.Era { return mcp.EraModern }

func (p *modern) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case methodSetLevel:
		// The level goes with each request (server/utilities/logging).
		return emptyResult()
	// Also where a legacy client says it: that roots have changed matters to a server
	// which remembers them, and a modern one asks when a request needs them.
	case "notifications/roots/list_changed", methodTaskStatus:
		return nil, nil //nolint:nilnil // a notification has no terminal, and the modern era has no roots to announce
	case methodTaskResult, methodTaskList:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%s does not exist in %s", req.Method, p.version)
	case methodToolsCall:
		return p.callTool(ctx, req, caller)
	}
	return p.attempt(ctx, req, caller)
}

// attempt sends a request for as many rounds as it takes, and begins once more
// where the server has refused it for its headers.
func (p *modern) attempt(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	res, err := p.rounds(ctx, req, caller)
	if isRejected(err, headerMismatch) && p.wire.refreshHeaders(ctx, p, req) {
		return p.rounds(ctx, req, caller)
	}
	return res, err
}

// call sends one request and returns its terminal.
func (p *modern) call(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, p.givenUp(ctx, mcp.NotDispatched)
	}
	call, err := p.wire.open(req.Method)
	if err != nil {
		return nil, err
	}
	return p.carry(ctx, call, req, params, caller)
}

// carry sends the request of an open call and returns its terminal.
func (p *modern) carry(ctx context.Context, call *session.Call, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	out := outboundRequest{version: p.version, params: params, msg: p.buildRequest(req, params, call), logs: requestedLevel(req.LogLevel)}
	f := outboundCall{setup: p.setup, owner: p, call: call, req: req, caller: caller, token: params.Raw(mcp.MetaProgressToken), version: p.version, forwardable: isForwardable(req)}
	return p.wire.carry(ctx, f, out)
}

// describe returns the request of a call, with what the server may know of the client
// (basic, "_meta"). Ids and progress tokens are ours on each connection, because
// several clients share it.
func (p *modern) buildRequest(req *mcp.Request, params *mcp.Object, call *session.Call) mcp.Pieces {
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
		e.Set(mcp.MetaProgressToken, call.ID().AppendTo(nil))
	}
	return mcp.EditedRequest(call.ID(), call.Method(), &e, params)
}

// asksFor returns the level that a modern request names. A client that left it to
// the server gets what most servers send.
func requestedLevel(level mcp.LogLevel) mcp.LogLevel {
	if level == mcp.LogUnset {
		return mcp.LogInfo
	}
	return level
}

// asked drops a request of the server. A modern server has no way to ask but
// by a result (basic/patterns/mrtr), and a client must not answer.
func (p *modern) asked(ctx context.Context, _ *outboundCall, _ *mcp.Message) {
	p.log.DebugContext(ctx, "backend sent a request, which its revision forbids")
}

func (p *modern) abandon(call *session.Call) { p.wire.abandon(call) }

func (p *modern) stats() session.CallStats { return p.wire.stats() }

func (p *modern) close(ctx context.Context) {
	p.group.cancel()
	p.wire.close(ctx)
	p.group.close()
}

func emptyResult() (*mcp.Result, error) { return mcp.NewResult([]byte("{}")) }
