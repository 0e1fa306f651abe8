// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// noteSender records the sender of a request for what the session sends on its own.
func (s *clientSession) noteSender(req *mcp.Request) {
	if s.Credentials == nil || req == nil {
		return
	}
	if last := s.sender.Load(); last == nil || last.Identity != req.Identity || last.Principal != req.Principal {
		s.sender.Store(&mcp.Request{Principal: req.Principal, Identity: req.Identity})
	}
}

// own returns the request that an HTTP request of the session itself belongs to.
func (s *clientSession) own(method string) *mcp.Request {
	if s.Credentials == nil {
		return nil
	}
	return s.OnBehalfOf(s.sender.Load(), method)
}

// about returns the request that a call is made for.
func (s *clientSession) about(f *call.Call) *mcp.Request {
	if f.Req != nil {
		return f.Req
	}
	return s.own(f.Call.Method())
}

// sharesSession reports whether all requests share one session.
func (l *Protocol) sharesSession() bool { return l.Share && !l.IsPerPrincipal() }

// checkSender returns an error if a session was opened with the credentials of another
// principal. The keys of sessions contain the principal, so it never should.
func (l *Protocol) checkSender(s *clientSession, req *mcp.Request) error {
	if of := s.sender.Load(); l.IsPerPrincipal() && of != nil && of.Principal != req.Principal {
		return l.Fault(mcp.CodeInternalError, mcp.NotDispatched, nil, "its session belongs to another principal")
	}
	return nil
}
