// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Profile is a set of client features that servers are known to require before they
// offer a tool. There are few profiles, whatever clients declare.
type Profile uint8

// The features.
const (
	hasElicitation Profile = 1 << iota
	hasURLElicitation
	hasSampling
	hasRoots
)

// FullProfile has every feature. Its lists are those of Offer.
const FullProfile = hasElicitation | hasURLElicitation | hasSampling | hasRoots

// ProfileOf returns the profile of a client that has declared these capabilities.
// Invalid capabilities declare nothing.
func ProfileOf(capabilities []byte) Profile {
	var c struct {
		Elicitation *map[string]jsontext.Value `json:"elicitation"`
		Sampling    *map[string]jsontext.Value `json:"sampling"`
		Roots       *map[string]jsontext.Value `json:"roots"`
	}
	if jsonv2.Unmarshal(orObject(capabilities), &c, jsontext.AllowDuplicateNames(true)) != nil {
		return 0
	}
	var p Profile
	if c.Elicitation != nil {
		p |= hasElicitation
		if _, ok := (*c.Elicitation)["url"]; ok {
			p |= hasURLElicitation
		}
	}
	if c.Sampling != nil {
		p |= hasSampling
	}
	if c.Roots != nil {
		p |= hasRoots
	}
	return p
}

// Within reports whether q has every feature of p.
func (p Profile) Within(q Profile) bool { return p&^q == 0 }

// capabilities returns the capabilities of a client that has exactly these features.
func (p Profile) capabilities() []byte {
	var members []string
	if p&hasElicitation != 0 {
		modes := `"form":{}`
		if p&hasURLElicitation != 0 {
			modes += `,"url":{}`
		}
		members = append(members, `"elicitation":{`+modes+`}`)
	}
	if p&hasSampling != 0 {
		members = append(members, `"sampling":{"context":{},"tools":{}}`)
	}
	if p&hasRoots != 0 {
		members = append(members, `"roots":{"listChanged":true}`)
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// clientOf returns the gateway itself as a client of the profile, with a scope of its
// own.
func (b *Backend) clientOf(p Profile) Client {
	peer := &mcp.Peer{Version: mcp.LatestModern, Info: b.cfg.Info, Capabilities: p.capabilities()}
	return Client{Peer: peer, Scope: mcp.NewScope("lists of "+b.cfg.Name, nil)}
}
