// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Class is what the rules can distinguish: subjects of one Class get the same decisions. It is
// a digest of the values that the rules read.
type Class [16]byte

// A Subject is a principal and its client as rules see them. It is immutable.
type Subject struct {
	class Class

	name, issuer, subject, via ref.Val
	scopes, claims             ref.Val
	granted                    []string // the scopes
	invalid                    reads    // readsClaims
	small                      bool     // all of it; see small

	era, clientName, clientVersion ref.Val
}

// Class returns the class of the subject.
func (s *Subject) Class() Class { return s.class }

// Subject returns the subject of a request. id and peer may be nil, and must not be changed
// afterwards. Subjects of recent identities are kept, so that the same pointers cost nothing.
func (p *Policy) Subject(id *mcp.Identity, peer *mcp.Peer) *Subject {
	if !p.byClient {
		peer = nil // it makes no difference
	}
	return p.subjects.get(id, peer, p.newSubject)
}

// anonymous is the identity of a request without one.
var anonymous = &mcp.Identity{} //nolint:gochecknoglobals // never changed

func (p *Policy) newSubject(id *mcp.Identity, peer *mcp.Peer) *Subject {
	if id == nil {
		id = anonymous
	}
	s := &Subject{
		name: types.String(id.Principal), issuer: types.String(id.Issuer), subject: types.String(id.Subject), via: types.String(id.Via),
		scopes: listOf(id.Scopes), claims: emptyMap(), granted: id.Scopes,
		era: types.String(""), clientName: types.String(""), clientVersion: types.String(""),
	}
	s.small = isSmall(id.Claims) && len(id.Scopes) <= small && len(id.Principal)+len(id.Issuer)+len(id.Subject) <= small
	for _, scope := range id.Scopes {
		s.small = s.small && len(scope) <= small
	}
	if id.Claims != nil {
		claims, err := convert(id.Claims, 0)
		if err != nil {
			s.invalid |= readsClaims
		} else {
			s.claims = claims
		}
	}
	var era, name, version string
	if peer != nil {
		era = peer.Version.Era().String()
		name, version = clientOf(peer.Info)
		s.small = s.small && len(peer.Info) <= small
		s.era, s.clientName, s.clientVersion = types.String(era), types.String(name), types.String(version)
	}
	s.class = p.classOf(id, s.invalid, map[string]any{
		varName: id.Principal, varIssuer: id.Issuer, varSubject: id.Subject, varVia: string(id.Via),
		varScopes: id.Scopes, varClaims: id.Claims,
		varEra: era, varClientName: name, varClientVersion: version,
	})
	return s
}

// clientOf reads an Implementation object.
func clientOf(info []byte) (name, version string) {
	for member, value := range jsonscan.Members(info) {
		v, err := decodeValue(value)
		text, ok := v.(types.String)
		if err != nil || !ok {
			continue
		}
		switch member {
		case "name":
			name = string(text)
		case "version":
			version = string(text)
		}
	}
	return name, version
}

// classOf returns the digest of the values that rules read.
func (p *Policy) classOf(id *mcp.Identity, invalid reads, values map[string]any) Class {
	h := sha256.New()
	h.Write([]byte{byte(invalid)})
	for _, path := range p.paths {
		hashAt(h, values[path[0]], path[1:])
	}
	for _, scope := range p.scopes {
		if slices.Contains(id.Scopes, scope) {
			hashText(h, []byte(scope))
		} else {
			hashText(h, nil)
		}
	}
	return Class(h.Sum(nil)[:16])
}

// hashAt hashes the value of a member. Rules can distinguish a member that is missing from one of a
// value that has no members.
func hashAt(h hash.Hash, v any, members []string) {
	for i, name := range members {
		m, ok := v.(map[string]any)
		if !ok {
			hashText(h, []byte{'n', byte(i)})
			return
		}
		if v, ok = m[name]; !ok {
			hashText(h, []byte{'a', byte(i)})
			return
		}
	}
	raw, err := json.Marshal(v) // members of maps are sorted
	if err != nil {
		raw = nil // such claims are invalid for all rules
	}
	hashText(h, append([]byte{'v'}, raw...))
}

func hashText(h hash.Hash, text []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(text)))
	h.Write(size[:])
	h.Write(text)
}

// subjects keeps the latest subject for each of a few hundred principals.
type subjects struct {
	slots [512]atomic.Pointer[keptSubject]
}

type keptSubject struct {
	id   *mcp.Identity
	peer *mcp.Peer
	*Subject
}

var subjectSeed = maphash.MakeSeed() //nolint:gochecknoglobals // so that no client chooses the slots

func (s *subjects) get(id *mcp.Identity, peer *mcp.Peer, create func(*mcp.Identity, *mcp.Peer) *Subject) *Subject {
	var slot uint64
	if id != nil {
		slot = maphash.String(subjectSeed, id.Principal) % uint64(len(s.slots))
	}
	if kept := s.slots[slot].Load(); kept != nil && kept.id == id && kept.peer == peer {
		return kept.Subject
	}
	next := &keptSubject{id, peer, create(id, peer)}
	s.slots[slot].Store(next)
	return next.Subject
}
