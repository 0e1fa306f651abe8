// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canned is a backend with almost no cost, so that measurements show the cost of
// what is in front of it. Every response is prepared once. A request is scanned only for
// what selects the response. The backend supports both eras, over HTTP and stdio.
//
// It supports the requests of a gateway, a proxy and the load generator of this bench. It
// answers everything else with an error, which fails the measurement: a backend that
// guesses would be measured without notice.
//
// The tools with a meaning, in the order in which a backend with few tools has them:
//
//	text_SIZE     responds at once with a text of that many bytes, as one JSON object
//	sse_COUNT     responds with 100 bytes as an event stream, after that many progress
//	              notifications if the request has a token for them
//	tool_NUMBER   is there to be listed, and responds like text_100
package canned
