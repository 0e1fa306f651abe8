// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load makes calls in a closed loop: so many clients, each of which makes its
// next call when it has the answer to the one before. It does as little as it can,
// because it shares the machine with what it measures: the bytes of a request are
// made once and differ in the id alone, connections are its own, and an answer is
// read into a buffer that is used again.
//
// Yet no answer is taken on trust. The first to each request is decoded and judged;
// every other has to be the same, byte for byte, but for its id, which has to be that
// of its request. What differs is an error, and a run with errors is no measurement.
package load
