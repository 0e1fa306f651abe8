// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// keptOffer returns what the server offered in an earlier run, or nil.
func (b *Backend) keptOffer() *Offer {
	if b.cfg.Kept == nil {
		return nil
	}
	return b.cfg.Kept(b.features)
}

// offerKept offers to the only client what the server offered in an earlier run.
func (b *Backend) offerKept(c *Client) {
	b.features = 0
	if c.Peer != nil {
		b.features = FeaturesOf(c.Peer.Capabilities)
	}
	if b.Offer().State != Starting {
		return // the lists of this run are newer
	}
	if kept := b.keptOffer(); kept != nil {
		b.publish(kept)
	}
}

// keptAnew is the age from which an offer is kept again although it has not changed. A
// server that is used every day must not count as old at the next start.
const keptAnew = maxKeptAge / 2

// keep passes a complete offer to Keep if it differs from what was kept, or that is old.
func (b *Backend) keep(o *Offer) {
	if b.cfg.Keep == nil || o.State != Live || o.late != 0 {
		return
	}
	for k := range o.Lists {
		if o.Lists[k].Failed {
			return
		}
	}
	if k := b.kept; k != nil && k.Lists.Equal(&o.Lists) && k.isSameServer(o) && o.At.Sub(k.At) < keptAnew {
		return
	}
	b.kept = o
	b.cfg.Keep(b.features, o)
}

// keptLists is the encoding of an Offer. Its members are bytes, so that they are read
// as they were written.
type keptLists struct {
	At           time.Time                  `json:"at"`
	Version      mcp.Version                `json:"version"`
	Info         []byte                     `json:"info"`
	Capabilities []byte                     `json:"capabilities"`
	Instructions string                     `json:"instructions"`
	Offered      uint8                      `json:"offered"`
	Lists        [catalog.NumKinds]keptList `json:"lists"`
}

type keptList struct {
	Items   [][]byte      `json:"items"`
	TTL     time.Duration `json:"ttl"`
	Public  bool          `json:"public"`
	Code    string        `json:"code,omitempty"`
	Problem string        `json:"problem"`
}

// Encode returns what a later run offers before it has reached the server. DecodeKept
// reads it.
func (o *Offer) Encode() ([]byte, error) {
	k := keptLists{
		At: o.At, Version: o.Server.Version, Info: o.Server.Info, Capabilities: o.Server.Capabilities,
		Instructions: o.Instructions, Offered: uint8(o.offered), Lists: o.Lists.encode(),
	}
	return json.Marshal(k)
}

// DecodeKept returns the Offer that was encoded.
func DecodeKept(raw []byte) (*Offer, error) {
	var k keptLists
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	o := &Offer{
		State: Kept, At: k.At, Instructions: k.Instructions, offered: listSet(k.Offered) & allLists,
		Server: mcp.Peer{Version: k.Version, Info: k.Info, Capabilities: k.Capabilities},
	}
	for _, raw := range [][]byte{k.Info, k.Capabilities} {
		if len(raw) > 0 && !json.Valid(raw) {
			return nil, errNotKept
		}
	}
	var err error
	o.Lists, err = decodeLists(k.Lists)
	return o, err
}

var errNotKept = errors.New("it does not contain lists")

func (l *Lists) encode() (out [catalog.NumKinds]keptList) {
	for k, list := range l {
		out[k] = keptList{TTL: list.TTL, Public: list.Public, Problem: list.Problem, Code: list.Code, Items: make([][]byte, len(list.Items))}
		for i, item := range list.Items {
			out[k].Items[i] = item
		}
	}
	return out
}

func decodeLists(in [catalog.NumKinds]keptList) (lists Lists, err error) {
	for k, list := range in {
		lists[k] = catalog.List{TTL: list.TTL, Public: list.Public, Problem: list.Problem, Code: list.Code}
		for _, item := range list.Items {
			if !json.Valid(item) {
				return Lists{}, errNotKept
			}
			lists[k].Items = append(lists[k].Items, item)
		}
	}
	return lists, nil
}

// featureLists is the encoding of the lists for a set of features.
type featureLists struct {
	Base  []byte                     `json:"base"` // Lists.sum of the lists of all clients
	Same  bool                       `json:"same"` // they equal those
	Lists [catalog.NumKinds]keptList `json:"lists"`
}

// EncodeFor returns lists for a set of features for a later run. base are the lists of all
// clients.
func (l *Lists) EncodeFor(base *Lists) ([]byte, error) {
	p := featureLists{Base: base.sum(), Same: l.Equal(base)}
	if !p.Same {
		p.Lists = l.encode()
	}
	return json.Marshal(p)
}

// DecodeListsFor returns the lists that EncodeFor was called for, if they belong to the
// same base.
func DecodeListsFor(base *Lists, raw []byte) (Lists, bool) {
	var p featureLists
	if json.Unmarshal(raw, &p) != nil || !bytes.Equal(p.Base, base.sum()) {
		return Lists{}, false
	}
	if p.Same {
		return *base, true
	}
	lists, err := decodeLists(p.Lists)
	return lists, err == nil
}

// sum returns a hash of the items.
func (l *Lists) sum() []byte {
	h := sha256.New()
	for k := range l {
		_ = binary.Write(h, binary.BigEndian, uint64(len(l[k].Items))) // a hash returns no error
		for _, item := range l[k].Items {
			writeBytes(h, item)
		}
	}
	return h.Sum(nil)
}
