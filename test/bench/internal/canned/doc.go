// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canned is a backend that costs next to nothing, so that what stands in
// front of it is what is measured. Every answer is prepared once; a request is
// scanned for what says which of them it gets, and for nothing else. It speaks both
// eras, over HTTP and stdio.
//
// It is right for what a gateway, a proxy and the load generator of this bench
// send. To everything else it answers with an error that says so, which fails the
// measurement: a backend that guesses would be measured in silence.
//
// The tools that mean something, of which a backend with few tools has the first:
//
//	text_SIZE     answers at once with a text of so many bytes, as one JSON object
//	sse_COUNT     answers with 100 bytes as an event stream, behind so many progress
//	              notifications if the request has a token for them
//	tool_NUMBER   are there to be listed, and answer like text_100
package canned
