// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ClientStatus is a client that has listed what the gateway offers. Its name and version are
// what it says about itself, without proof.
type ClientStatus struct {
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Protocol mcp.Version `json:"protocol"` // its revision of the protocol
	First    time.Time   `json:"first"`    // its first list
	Last     time.Time   `json:"last"`     // its last list
}

// Clients returns the clients that have listed what the gateway offers, the last ones first.
// Clients that describe themselves in the same way are one. It keeps a bounded number of
// them, and none that has come after that many others. It does not block.
func (g *Gateway) Clients() []ClientStatus { return g.seen.all() }

const (
	// maxClientsSeen bounds the clients that are kept: their descriptions are their own.
	maxClientsSeen = 100
	// maxClientInfo is the size of the longest description that is kept.
	maxClientInfo = 2 << 10
)

// clientsSeen are the clients that have listed something, by what they send about themselves.
// The zero value is ready for use.
type clientsSeen struct {
	mu      sync.RWMutex
	clients map[string]*clientSeen
}

type clientSeen struct {
	version mcp.Version
	first   time.Time
	last    atomic.Int64 // Unix time in nanoseconds
}

// note notes that a client lists something.
func (s *clientsSeen) note(client *mcp.Peer) {
	if client == nil || len(client.Info) == 0 || len(client.Info) > maxClientInfo {
		return
	}
	now := time.Now()
	s.mu.RLock()
	seen := s.clients[string(client.Info)]
	s.mu.RUnlock()
	if seen == nil {
		seen = s.add(client, now)
	}
	if seen != nil {
		seen.last.Store(now.UnixNano())
	}
}

// add adds a client, unless there are too many.
func (s *clientsSeen) add(client *mcp.Peer, now time.Time) *clientSeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.clients[string(client.Info)]; seen != nil || len(s.clients) >= maxClientsSeen {
		return seen
	}
	if s.clients == nil {
		s.clients = make(map[string]*clientSeen)
	}
	seen := &clientSeen{version: client.Version, first: now}
	s.clients[string(client.Info)] = seen
	return seen
}

func (s *clientsSeen) all() []ClientStatus {
	all := []ClientStatus{}
	s.mu.RLock()
	for info, seen := range s.clients {
		all = append(all, ClientStatus{
			Name: infoMember([]byte(info), "name"), Version: infoMember([]byte(info), "version"),
			Protocol: seen.version, First: seen.first, Last: time.Unix(0, seen.last.Load()),
		})
	}
	s.mu.RUnlock()
	slices.SortFunc(all, func(a, b ClientStatus) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Name, b.Name)) })
	return all
}
