// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the second layer of the simulator: the real edges, over the
// real net/http, on a network of memory that fails on purpose. It consists of
// tests alone.
//
//	clients             line "front"    gateway           line "back"    backend
//	legacy, modern,  ----------------  server.New over  --------------  server.New
//	our own            reset, cut,      client.NewHTTP     the same       over a script
//	                   stall, crash
//
// In some schedules the gateway is the whole product; in some there are two of it,
// with one key, before the same backend; in some the backend, and in some a client of
// our own, is at the other end of pipes of lines, as if one had started the other.
//
// A schedule is a sequence of steps: what a client does, what breaks, how much
// time goes by. Each runs in a bubble of testing/synctest, in which an hour costs
// nothing and a goroutine that is left over is found. All that is random in it
// comes from one seed, but for one thing: which of two goroutines runs first is
// the scheduler's of Go to say. A seed therefore finds again what it has found
// most of the time and not always, and -sim.count repeats it.
//
// What everybody sends bears a mark that nothing else bears. Clients check each
// message where it arrives, backends check each answer, and at the end both sides
// are held against each other: see record and verdict.
package wire
