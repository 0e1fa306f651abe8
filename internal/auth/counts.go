// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// An Outcome is how an authentication has ended.
type Outcome string

// The outcomes.
const (
	Accepted    Outcome = "accepted"
	Refused     Outcome = "refused"
	Unavailable Outcome = "unavailable" // the issuer could not be reached
)

// A Count is the number of authentications with one form of credential and one outcome.
type Count struct {
	Form    string // a [mcp.Via], or "none" without a credential, or with several
	Outcome Outcome
	N       uint64
}

// forms and outcomes are what is counted, in this order.
func forms() []mcp.Via {
	return []mcp.Via{mcp.ViaNone, mcp.ViaToken, mcp.ViaJWT, mcp.ViaIntrospection, mcp.ViaCertificate, mcp.ViaProxy}
}
func outcomes() []Outcome { return []Outcome{Accepted, Refused, Unavailable} }

// counts counts authentications. The zero value is ready.
type counts [6][3]atomic.Uint64

func (c *counts) add(form mcp.Via, err error) {
	i, j := slices.Index(forms(), form), 0
	if err != nil {
		j = 1
		if d, ok := errors.AsType[*server.Denial](err); ok && d.Status == http.StatusServiceUnavailable {
			j = 2
		}
	}
	c[i][j].Add(1)
}

// Counts returns the numbers of authentications since the start. A form that no configured
// credential has is left out.
func (c *Chain) Counts() []Count {
	var all []Count
	for i, form := range forms() {
		if !c.hasForm(form) {
			continue
		}
		for j, outcome := range outcomes() {
			if form == mcp.ViaNone && outcome == Accepted || outcome == Unavailable && form != mcp.ViaJWT && form != mcp.ViaIntrospection {
				continue
			}
			name := string(form)
			if form == mcp.ViaNone {
				name = "none"
			}
			all = append(all, Count{name, outcome, c.counts[i][j].Load()})
		}
	}
	return all
}

// hasForm reports whether a configured credential may have a form. Bearer tokens always count.
func (c *Chain) hasForm(form mcp.Via) bool {
	switch form {
	case mcp.ViaJWT:
		return len(c.issuers) > 0
	case mcp.ViaIntrospection:
		return c.introspector != nil
	case mcp.ViaCertificate:
		return c.certificates != nil
	case mcp.ViaProxy:
		return c.proxy != nil
	default:
		return true
	}
}
