// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

// scriptTokens are the tokens with which scripts make requests to their gateways.
func scriptTokens() []string {
	return []string{"abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"}
}

// checkTokens checks that none of the tokens is in what the gateways of a script have written.
func checkTokens(e *testscript.Env, state string) {
	var secrets canary.Set
	for _, token := range scriptTokens() {
		if err := secrets.Put("token of a script", token); err != nil {
			e.T().Fatal(err)
		}
	}
	found, err := secrets.ScanFiles(state)
	if err != nil {
		e.T().Fatal(err)
	}
	started, _ := e.Values[gatewaysKey{}].(map[string]*process)
	for name, p := range started {
		found = slices.Concat(found, secrets.Scan("the output of "+name, p.all()))
	}
	if len(found) > 0 {
		e.T().Fatal(found)
	}
}
