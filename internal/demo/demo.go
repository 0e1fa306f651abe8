// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo is the backend that is served if nothing is configured, so that a gateway can
// be tried without a server. Each item exercises one feature that a gateway has to forward:
//
//	echo         text, byte for byte
//	countdown    progress, log messages, cancellation
//	introduce    a question to the user
//	roll_dice    structured content
//	demo://...   a list of resources, a template and what fills it
//	greet        a prompt that carries a resource
//
// It is a [mux.Mux], and an example of a server: its code has calls, but no eras, sessions and
// transports.
package demo

import "github.com/signalbox-mcp/signalbox/mux"

// New returns the demo. Several gateways may serve it at once: it has no state, and its lists
// never change.
func New() *mux.Mux {
	m := mux.New(aboutDemo(), languageList(), greetingTemplate(), greetPrompt())
	for _, t := range tools() {
		m.MustAdd(t)
	}
	m.Name, m.Title, m.Version = "signalbox-demo", "Signalbox demo", "1"
	m.Instructions = "Things to try a gateway with. countdown shows progress and log messages and can be cancelled, " +
		"introduce asks the user for a name, roll_dice returns structured content. Read demo://about for the rest."
	m.Fixed = true
	return m
}
