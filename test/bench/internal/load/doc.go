// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load makes calls in a closed loop: each of a number of clients makes its next
// call when it has the response to the previous one. It does as little as possible, because
// it shares the machine with the measured program: the bytes of a request are made once and
// differ in the id alone, connections are not pooled, and the buffer for responses is
// reused.
//
// Nevertheless every response is checked. The first response to each request is decoded and
// judged. All others must be the same, byte for byte, except for the id, which must be that
// of the request. A difference is an error, and a run with errors is no measurement.
package load
