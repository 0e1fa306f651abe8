// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo is the backend that the command serves when nothing is
// configured, so that a gateway can be tried before there is anything to put
// behind it. Each item shows one thing that has to survive the way through:
//
//	echo         text, byte for byte
//	countdown    progress, log messages, cancellation
//	introduce    a question to the user
//	roll_dice    structured content
//	demo://...   a list of resources, a template and what fills it
//	greet        a prompt that carries a resource
//
// It is made of a [mux.Mux], and an example of how a server is written: it knows no
// era, no session and no transport, only calls.
package demo

import "github.com/signalbox-mcp/signalbox/mux"

// New returns the demo, which any number of gateways may serve at once: it keeps no
// state, and its lists never change.
func New() *mux.Mux {
	m := mux.New(aboutDemo(), languageList(), greetingTemplate(), greetPrompt())
	for _, t := range tools() {
		m.MustAdd(t)
	}
	m.Name, m.Title, m.Version = "signalbox-demo", "Signalbox demo", "1"
	m.Instructions = "Things to try a gateway with. countdown shows progress and log messages and can be cancelled, " +
		"introduce asks the user for a name, roll_dice answers with structured content. Read demo://about for the rest."
	m.Fixed = true
	return m
}
