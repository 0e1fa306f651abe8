// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mux combines tools, prompts, resources and templates into an [mcp.Handler],
// as [net/http.ServeMux] combines patterns into an http.Handler. A server with one
// tool:
//
//	m := mux.New(mux.Tool{
//		Name: "now",
//		Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
//			return mux.Say("It is %s.", time.Now().Format(time.Kitchen)), nil
//		},
//	})
//	m.Name, m.Version = "clock", "1"
//	s := server.New(m, server.Config{})
//	http.Handle("/mcp", s)                           // or, for a client that starts it:
//	err := s.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// A function is called with a [Call]: the request and its sender, and the methods to
// reach the client while the request is served (progress, log messages, questions). A
// function does not depend on a protocol revision: package server translates for each
// client, so that every tool serves clients of all revisions. Values that middleware of
// net/http has put into the context of a request are in the context of the function.
//
// # Arguments
//
// [Bound] adapts a function that takes its arguments as a Go value; [Call.Bind] decodes
// arguments over their defaults. The schema that a model reads is written by hand, or
// made by a library and [MustJSON]. An item is a struct with a function in it, so
// middleware for some tools, such as validation against their schemas, is a function
// from a [Tool] to a Tool. Middleware for all requests is a Handler around the Mux.
//
// # Questions
//
// A function that needs input from its user has two ways to ask. [Call.Ask] waits for
// the answer and keeps the state of the function. If a client of the modern era has to
// come back with the answer, the request is parked in this process meanwhile.
// [Call.Input] keeps no state: if the client has to come back, the function returns the
// error of Input, and is called again from the beginning with the answers. That
// survives a restart, and any replica can continue.
//
// # Tasks
//
// A tool that takes long uses [Call.Background]: for clients that support tasks the
// rest runs in the background as a task, and for others it is part of the call. Tasks
// are kept in memory. Use [Mux.Close] to stop a Mux that has run tasks.
//
// # Errors
//
// An error that a model can correct is made by [Errorf]: it becomes a result with
// isError, which the model reads. An [*mcp.Error] is an error of the protocol and is
// sent unmodified. Any other error is unexpected and may contain secrets: the client
// receives an internal error without its text, which the server logs. A panic in a
// function is such an error too, and affects only its own request.
//
// # Changes
//
// Items can be added and removed at any time, also by their own functions: a call that
// has begun continues with the item it began with. Clients that listen are notified of
// a changed list and fetch it again; many changes at once are merged into one
// notification.
package mux
