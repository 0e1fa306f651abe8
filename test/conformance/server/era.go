// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// only returns h for the clients of one era, "legacy" or "modern". Others get the response
// of a server that does not know the other era. A library that serves both has no use for
// this, but it tests a gateway in front of such a server.
func only(era string, h http.Handler) (http.Handler, error) {
	var other mcp.Era
	switch era {
	case "":
		return h, nil
	case "legacy":
		other = mcp.EraModern
	case "modern":
		other = mcp.EraLegacy
	default:
		return nil, fmt.Errorf("-era %q is neither legacy nor modern", era)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A client that initializes sends no version yet.
		asked := mcp.EraLegacy
		if v := mcp.Version(r.Header.Get("Mcp-Protocol-Version")); v != "" {
			asked = v.Era()
		}
		if asked != other {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"unsupported protocol version"}}`)
	}), nil
}
