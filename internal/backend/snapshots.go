// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"sync"
	"weak"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// Snapshots are the lists that several Backends of one server offer: equal lists are in memory
// once, and one that no Backend offers any more is freed. The zero value is ready. Its methods may
// be called concurrently.
type Snapshots struct {
	mu    sync.Mutex
	known map[digest]weak.Pointer[snapshot]
}

type digest = [sha256.Size]byte

// snapshot are the items of one list. It is immutable.
type snapshot struct {
	items  []json.RawMessage
	digest digest
}

// maxSnapshots is the number of snapshots above which those that are freed are dropped from the
// table.
const maxSnapshots = 256

// share returns a list with the items of the snapshot that is equal, and the snapshot, which must
// be kept with the list. Of a nil Snapshots the list has none.
func (s *Snapshots) share(l catalog.List) (catalog.List, *snapshot) {
	if s == nil {
		return l, nil
	}
	sum := digestOf(l.Items)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[sum].Value(); known != nil {
		l.Items = known.items
		return l, known
	}
	if len(s.known) >= maxSnapshots {
		maps.DeleteFunc(s.known, func(_ digest, p weak.Pointer[snapshot]) bool { return p.Value() == nil })
	}
	if s.known == nil {
		s.known = make(map[digest]weak.Pointer[snapshot])
	}
	made := &snapshot{l.Items, sum}
	s.known[sum] = weak.Make(made)
	return l, made
}

// digestOf identifies the items of a list, in their order.
func digestOf(items []json.RawMessage) digest {
	h := sha256.New()
	for _, item := range items {
		writeBytes(h, item)
	}
	return digest(h.Sum(nil))
}

// writeBytes writes a text with its length, so that no two sequences of texts are written alike.
func writeBytes(h hash.Hash, text []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(text)))
	h.Write(size[:])
	h.Write(text)
}

// Content identifies all of an Offer that clients can distinguish. Contents are comparable.
type Content digest

// Content returns that of the offer.
func (o *Offer) Content() Content {
	h := sha256.New()
	for _, text := range []string{o.State.String(), o.Reason, o.Code, string(o.Server.Version), string(o.Server.Info), string(o.Server.Capabilities), o.Instructions} {
		writeBytes(h, []byte(text))
	}
	h.Write([]byte{byte(o.offered), byte(o.notified), byte(o.late)})
	for k := range o.Lists {
		l := &o.Lists[k]
		_, _ = fmt.Fprintf(h, "%d %t %t %q", l.TTL, l.Public, l.Failed, l.Problem) // a hash returns no error
		if s := o.shared[k]; s != nil {
			h.Write(s.digest[:])
			continue
		}
		sum := digestOf(l.Items)
		h.Write(sum[:])
	}
	return Content(h.Sum(nil))
}
