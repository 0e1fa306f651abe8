// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Server is how a server describes itself. Its bytes must not be modified.
type Server struct {
	Era          mcp.Era
	Version      mcp.Version   // the revision in use
	Versions     []mcp.Version // the revisions that the server lists
	Capabilities []byte        // its capabilities object
	Info         []byte        // its Implementation object, or nil if it sent none
	Instructions string
}

// Probe returns the server's description. It is cached for as long as the server's era
// stays the same.
func (c *Client) Probe(ctx context.Context) (Server, error) {
	if s := c.discovered.Load(); s != nil {
		return *s, nil
	}
	res, err := c.Serve(ctx, &mcp.Request{Method: call.MethodDiscover, Client: c.setup.Self()}, call.NoCaller{})
	if err != nil {
		return Server{}, err
	}
	s := Server{Capabilities: res.Raw(mcp.FieldCapabilities), Info: res.Raw(mcp.MetaServerInfo)}
	s.Instructions, _ = res.Text(mcp.FieldInstructions)
	s.Versions = versionsIn(res.Raw(mcp.FieldSupportedVersions))
	ap, _ := c.current()
	if ap == nil {
		return s, nil // the protocol was retired meanwhile; do not cache
	}
	s.Era = ap.Era()
	s.Version = commonVersion(s.Versions, s.Era)
	c.discovered.Store(&s)
	return s, nil
}

// versionsIn parses a list of revisions. Anything else yields nil, like a server that
// supports no revision known here.
func versionsIn(raw []byte) []mcp.Version {
	var vs []mcp.Version
	if json.Unmarshal(raw, &vs) != nil {
		return nil
	}
	return vs
}

// commonVersion returns the newest known version of the era in vs, or "". Versions are
// dates, so the newest is the greatest string.
func commonVersion(vs []mcp.Version, era mcp.Era) mcp.Version {
	var best mcp.Version
	for _, v := range vs {
		if v.Era() == era && v > best {
			best = v
		}
	}
	return best
}

// probeTime returns how long a probe may take: at most a third of Handshake, because a
// legacy handshake may have to follow.
func probeTime(s *call.Setup, atMost time.Duration) time.Duration {
	return min(atMost, s.Handshake/3)
}

// probeResult is the meaning of the response to a probe. isUndecided is a result of its
// own: treating a failure as a legacy server would hide it behind the failure of a
// handshake.
type probeResult uint8

const (
	isLegacy probeResult = iota // or a response that no modern server would send
	isModern
	isSilent    // no valid response: a legacy server, or one that had not started
	isUndecided // the response indicates no era; its error is returned
)

// decide interprets the response to a probe. For a result, the listed versions decide.
// An error that is not a modern one indicates a legacy server, whatever its code
// (2026-07-28, basic/versioning, "Backward Compatibility with Initialization-Based
// Versions").
func decide(s *call.Setup, res *mcp.Result, err error) (probeResult, error) {
	if err == nil {
		return decideByVersions(s, versionsIn(res.Raw(mcp.FieldSupportedVersions)), nil)
	}
	if call.IsRejected(err, call.NoCredential) {
		return isUndecided, err // whatever it is, it is not from the server
	}
	// A Fault takes precedence over the Error that caused it, as in [mcp.ToWire]: the
	// cause may be the response to another message than the probe.
	f, isFault := errors.AsType[*mcp.Fault](err)
	wire, isWire := errors.AsType[*mcp.Error](err)
	isWire = isWire && !isFault
	switch {
	case isWire && wire.Code == mcp.CodeUnsupportedVersion:
		return decideByVersions(s, supportedIn(wire), err)
	case isWire && (wire.Code == mcp.CodeHeaderMismatch || wire.Code == mcp.CodeMissingCapability):
		return isModern, nil
	case isWire:
		return isLegacy, nil
	}
	switch r, refused := errors.AsType[*httpconn.Refusal](err); {
	case refused && isFault && (r.Status == 429 || r.Status == 503):
		return isUndecided, &call.Rejected{Why: call.Busy, Err: call.BeforeSend(f)}
	// Both eras check credentials before they process the message.
	case refused && (r.Status == 401 || r.Status == 403):
		return isUndecided, err
	case refused:
		return isLegacy, nil
	// A probe that was not sent does not indicate the era.
	case isFault && f.Outcome == mcp.NotDispatched:
		return isUndecided, err
	default:
		return isSilent, nil
	}
}

// decideByVersions decides by the versions that the server lists. If it lists some, and
// none is known here, no handshake is attempted: it would open a session with rules
// that one side does not know.
func decideByVersions(s *call.Setup, vs []mcp.Version, err error) (probeResult, error) {
	switch {
	case commonVersion(vs, mcp.EraModern) != "" && err == nil:
		return isModern, nil
	case commonVersion(vs, mcp.EraLegacy) != "", len(vs) == 0:
		return isLegacy, nil
	// The server has refused the revision that it lists. Trust the list once: the next
	// request is the attempt that the specification asks for, and its error is returned
	// if that is refused too (2026-07-28, basic/versioning).
	case commonVersion(vs, mcp.EraModern) != "":
		return isModern, nil
	default:
		return isUndecided, call.Because(code.TalkRevision,
			s.Unavailable(errors.Join(call.ErrNoRetry, err), "it supports no revision that is known here (%.200q)", vs))
	}
}

// supportedIn returns the versions listed in an error of code -32022, with which a
// modern server refuses a revision.
func supportedIn(e *mcp.Error) []mcp.Version {
	var data struct {
		Supported []mcp.Version `json:"supported"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}
