// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the second layer of the simulator: the real edges over the real net/http,
// on an in-memory network with injected faults. It consists of tests only.
//
//	clients             link "front"    gateway           link "back"    backend
//	legacy, modern,  ----------------  server.New over  --------------  server.New
//	our library        reset, cut,      client.NewHTTP     the same       over a script
//	                   stall, crash
//
// In some schedules the gateway is the whole product. In some there are two replicas with
// one key before the same backend. In some the backend, or a client of our library, is at
// the other end of pipes of lines, as if one had started the other.
//
// A schedule is a sequence of steps: client actions, faults, and the passing of time. Each
// schedule runs in a bubble of testing/synctest, in which an hour costs nothing and a
// leaked goroutine is found. One seed determines all random choices, but the Go scheduler
// decides which of two goroutines runs first. So a seed mostly, but not always, reproduces
// what it has found; -sim.count repeats it.
//
// Every message bears a unique mark. Clients check each message on arrival, backends check
// each answer, and at the end both sides are compared: see record and verdict.
package wire
