// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Server is what a server says of itself. Its bytes must not be changed.
type Server struct {
	Era          mcp.Era
	Version      mcp.Version   // the revision that is spoken with it
	Versions     []mcp.Version // those that it says it supports
	Capabilities []byte        // its capabilities object
	Info         []byte        // its Implementation object, nil where it did not say
	Instructions string
}

// Probe returns what the server says of itself: from memory, if it has been
// asked and still speaks the same era.
func (c *Client) Probe(ctx context.Context) (Server, error) {
	if s, ok := c.discovery.get(); ok {
		return s, nil
	}
	res, err := c.Serve(ctx, &mcp.Request{Method: methodDiscover, Client: c.self()}, noCaller{})
	if err != nil {
		return Server{}, err
	}
	s := Server{Capabilities: res.Raw(mcp.FieldCapabilities), Info: res.Raw(mcp.MetaServerInfo)}
	s.Instructions, _ = res.Text(mcp.FieldInstructions)
	s.Versions = versionsIn(res.Raw(mcp.FieldSupportedVersions))
	sp, _ := c.current()
	if sp == nil {
		return s, nil // it went away meanwhile; what it said is not kept
	}
	s.Era = sp.era()
	s.Version = commonVersion(s.Versions, s.Era)
	c.discovery.set(s)
	return s, nil
}

// discoverCache keeps what a server has said of itself. It is forgotten with the
// protocol that it was learned through, because a server that has changed its era
// is another server.
type discoverCache struct {
	mu sync.Mutex
	s  *Server
}

func (h *discoverCache) get() (Server, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.s == nil {
		return Server{}, false
	}
	return *h.s, true
}

func (h *discoverCache) set(s Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s = &s
}

func (h *discoverCache) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s = nil
}

// versionsIn reads a list of revisions. What is no list names none, which is what a
// server says that speaks none of ours.
func versionsIn(raw []byte) []mcp.Version {
	var vs []mcp.Version
	if json.Unmarshal(raw, &vs) != nil {
		return nil
	}
	return vs
}

// commonVersion returns the newest of the versions that is of the era and known
// to us, or "". Revisions are dates, so that the newest is the greatest text.
func commonVersion(vs []mcp.Version, era mcp.Era) mcp.Version {
	var best mcp.Version
	for _, v := range vs {
		if v.Era() == era && v > best {
			best = v
		}
	}
	return best
}

// ask makes the probe of a server whose era is unknown: a modern request for
// discovery, within its own time.
func (s *setup) discover(ctx context.Context, wire modernWire, bound time.Duration) (*modern, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	p := &modern{setup: s, wire: wire, version: mcp.LatestModern}
	res, err := p.call(ctx, &mcp.Request{Method: methodDiscover, Client: s.self()}, new(mcp.Object), noCaller{})
	p.discovered = res
	return p, err
}

// probeTime returns how long a probe may take: no more than a part of the time
// that a server has for its first answer, whatever era it is of.
func (s *setup) probeTime(atMost time.Duration) time.Duration {
	return min(atMost, s.Handshake/3)
}

// probeResult is what the answer to a probe means. That it means nothing is a finding of
// its own: to take a failure for a legacy server would hide the failure behind that
// of a handshake.
type probeResult uint8

const (
	isLegacy probeResult = iota // or says nothing that a modern server would say
	isModern
	isUndecided // no answer about the era; the error stands
)

// conclude says what the answer to a probe means. The versions decide, not the
// mere answer; and that an error is not a modern one says that the server is
// legacy, whatever its code (2026-07-28, basic/versioning,
// "Backward Compatibility with Initialization-Based Versions").
func (s *setup) decide(res *mcp.Result, err error) (probeResult, error) {
	if err == nil {
		return s.decideByVersions(versionsIn(res.Raw(mcp.FieldSupportedVersions)), nil)
	}
	// A Fault comes before the Error that caused it, as in [mcp.ToWire]: the cause may
	// be the answer to another message than the probe.
	f, isFault := errors.AsType[*mcp.Fault](err)
	wire, isWire := errors.AsType[*mcp.Error](err)
	isWire = isWire && !isFault
	switch {
	case isWire && wire.Code == mcp.CodeUnsupportedVersion:
		return s.decideByVersions(supportedIn(wire), err)
	case isWire && (wire.Code == mcp.CodeHeaderMismatch || wire.Code == mcp.CodeMissingCapability):
		return isModern, nil
	case isWire:
		return isLegacy, nil
	}
	switch r, refused := errors.AsType[*refusal](err); {
	case refused && isFault && (r.status == 429 || r.status == 503):
		return isUndecided, &rejected{why: busy, err: beforeSend(f)}
	// Said before the message is looked at, in either era.
	case refused && (r.status == 401 || r.status == 403):
		return isUndecided, err
	case refused:
		return isLegacy, nil
	// What was not sent was not answered by silence: a server that could not be
	// reached is of either era.
	case isFault && f.Outcome == mcp.NotDispatched:
		return isUndecided, err
	default:
		return isLegacy, nil
	}
}

// concludeVersions decides by what the server supports. A server that names
// revisions, and none of ours, is not guessed at: to shake hands with it would
// end in a session whose rules one side does not know.
func (s *setup) decideByVersions(vs []mcp.Version, err error) (probeResult, error) {
	switch {
	case commonVersion(vs, mcp.EraModern) != "" && err == nil:
		return isModern, nil
	case commonVersion(vs, mcp.EraLegacy) != "", len(vs) == 0:
		return isLegacy, nil
	// It has refused the revision that it names. It is taken at its word, once: the
	// next request is the attempt that the specification asks for, and if that is
	// refused too, its error is the answer (2026-07-28, basic/versioning).
	case commonVersion(vs, mcp.EraModern) != "":
		return isModern, nil
	default:
		return isUndecided, s.unavailable(errors.Join(errNoRetry, err), "it supports no revision that is known here (%.200q)", vs)
	}
}

// supportedIn returns the versions that an error of code -32022 names. The error is
// how a modern server refuses a revision, and the only one that says what to try
// instead.
func supportedIn(e *mcp.Error) []mcp.Version {
	var data struct {
		Supported []mcp.Version `json:"supported"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}
