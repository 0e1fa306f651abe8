// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// session is what a legacy client has set in its session, to be repeated to another
// gateway.
type session struct {
	initialize []byte // the params
	version    mcp.Version
	changing   []string          // what the gateway notifies of: tools, prompts, resources
	level      []byte            // the params of the last logging/setLevel, or nil
	subscribed map[string][]byte // the params of each resources/subscribe, by URI
}

// The methods that change a session.
const (
	initialize  = "initialize"
	setLevel    = "logging/setLevel"
	subscribe   = "resources/subscribe"
	unsubscribe = "resources/unsubscribe"
	initialized = "notifications/initialized"
)

// sessionParams returns a copy of the params of a request that changes the session, and
// nil for all others.
func sessionParams(method string, line []byte) []byte {
	switch method {
	case initialize, setLevel, subscribe, unsubscribe:
	default:
		return nil
	}
	m, err := mcp.Parse(line, mcp.Limits{})
	if err != nil || m.Params.Has(mcp.MetaVersion) {
		return nil // the gateway refuses it, or it is modern
	}
	return bytes.Clone(m.Params.Bytes())
}

// after returns the session after a request that has succeeded.
func (s *session) after(q *request, answer []byte) *session {
	if q.params == nil {
		return s
	}
	if q.method == initialize {
		return newSession(q.params, answer)
	}
	params, err := mcp.ParseObject(q.params)
	if s == nil || err != nil {
		return s
	}
	uri, _ := params.Text(mcp.FieldURI)
	switch q.method {
	case setLevel:
		s.level = q.params
	case subscribe:
		s.subscribed[uri] = q.params
	case unsubscribe:
		delete(s.subscribed, uri)
	}
	return s
}

// newSession returns the session that an initialize has opened. An answer that was too
// long to be kept counts as one that promises to notify of everything.
func newSession(params, answer []byte) *session {
	s := &session{initialize: params, subscribed: make(map[string][]byte)}
	m, err := mcp.Parse(answer, mcp.Limits{})
	if err != nil {
		s.changing = []string{"tools", "prompts", "resources"}
		return s
	}
	s.version = versionIn(&m)
	for name, capability := range jsonscan.Members(m.Result.Raw(mcp.FieldCapabilities)) {
		for member, value := range jsonscan.Members(capability) {
			if member == "listChanged" && string(value) == "true" {
				s.changing = append(s.changing, name)
			}
		}
	}
	return s
}

func versionIn(answer *mcp.Message) mcp.Version {
	version, _ := answer.Result.Text(mcp.FieldProtocolVersion)
	return mcp.Version(version)
}

// clone returns a copy that can be used without the lock.
func (s *session) clone() *session {
	if s == nil {
		return nil
	}
	c := *s
	c.subscribed = maps.Clone(s.subscribed)
	return &c
}

// restore opens the session of the client on a new link. It returns the notifications
// that everything may have changed. What a new gateway refuses of the rest is reported to
// the user: for the client it is as if the gateway had restarted with another
// configuration.
func (r *Relay) restore(ctx context.Context, l *link) ([][]byte, error) {
	r.mu.Lock()
	s, complete := r.session.clone(), r.initialized
	r.mu.Unlock()
	if s == nil {
		return nil, nil
	}
	opened, err := r.ask(ctx, l, openTimeout, initialize, s.initialize)
	switch {
	case errors.Is(err, errGone):
		return nil, err
	case errors.Is(err, &mcp.Error{Code: mcp.CodeShuttingDown}):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("the gateway was replaced, and the new one did not open the session: %w; restart this server in the client", err)
	}
	m, err := mcp.Parse(opened, mcp.Limits{}) // it fails for an answer that was too long to be kept
	if version := versionIn(&m); err == nil && s.version != "" && version != s.version {
		return nil, fmt.Errorf("the gateway was replaced, and the new one speaks another revision (%q instead of %q); restart this server in the client", version, s.version)
	}
	if !complete {
		return nil, nil
	}
	if err := l.send(jsonrpc.AppendNotification(nil, initialized, nil)); err != nil {
		return nil, errGone
	}
	r.repeat(ctx, l, s)
	return s.changes(), nil
}

// repeat repeats what the client has set in its session.
func (r *Relay) repeat(ctx context.Context, l *link, s *session) {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	again := func(method string, params []byte) {
		if _, err := r.ask(ctx, l, restoreTimeout, method, params); err != nil {
			r.cfg.Report(fmt.Sprintf("%s of the client was not repeated to the new gateway: %v", method, err))
		}
	}
	if s.level != nil {
		again(setLevel, s.level)
	}
	for _, uri := range slices.Sorted(maps.Keys(s.subscribed)) {
		again(subscribe, s.subscribed[uri])
	}
}

// changes returns the notifications that everything may have changed.
func (s *session) changes() [][]byte {
	var notices [][]byte
	for _, name := range s.changing {
		notices = append(notices, jsonrpc.AppendNotification(nil, "notifications/"+name+"/list_changed", nil))
	}
	for _, uri := range slices.Sorted(maps.Keys(s.subscribed)) {
		params := append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}')
		notices = append(notices, jsonrpc.AppendNotification(nil, "notifications/resources/updated", params))
	}
	return notices
}

// ask sends a request of the Relay itself, and returns its answer.
func (r *Relay) ask(ctx context.Context, l *link, timeout time.Duration, method string, params []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := make(chan reply, 1)
	r.mu.Lock()
	r.asks.last++
	id := ownID(r.asks.last, "attach")
	l.replies[id] = to
	r.mu.Unlock()
	if err := l.send(jsonrpc.AppendRequest(nil, id, method, params)); err != nil {
		return nil, errGone
	}
	select {
	case got := <-to:
		if got.failed {
			return nil, errorIn(got.line)
		}
		return got.line, nil
	case <-l.gone:
		return nil, errGone
	case <-ctx.Done():
		return nil, errNoResponse
	}
}

var errNoResponse = errors.New("no response in time")

func errorIn(line []byte) error {
	m, err := mcp.Parse(line, mcp.Limits{})
	if err != nil {
		return err
	}
	wire, err := m.WireError()
	if err != nil {
		return err
	}
	return wire
}

func (l *link) send(text []byte) error {
	_, err := l.conn.Write(append(text, '\n'))
	return err
}

// ownID returns an id that no client and no gateway uses by chance.
func ownID(n uint64, what string) mcp.ID {
	return jsonrpc.StringID("signalbox-" + what + "-" + strconv.FormatUint(n, 10))
}
