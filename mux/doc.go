// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mux makes an [mcp.Handler] of tools, prompts, resources and templates, as
// [net/http.ServeMux] makes one of patterns. A server of one tool:
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
// A function is called with a [Call]: what was asked, and by whom, and the way back
// to the client while it is served (progress, log messages, questions). It knows no
// revision: package server says everything as the client's has it, so that each tool
// serves clients of all of them. What middleware of net/http has put into the context
// of a request is in that of the function.
//
// # Arguments
//
// [Bound] makes a function of one that takes its arguments as a value of Go; [Call.Bind]
// decodes them over their defaults. The schema that a model reads is written by hand,
// or made by a library and [MustJSON]. An item is a struct with a function in it: what
// is to be done around several, such as to hold arguments against their schemas, is a
// function from a [Tool] to a Tool. What is to be done around all of them is a Handler
// around the Mux.
//
// # Questions
//
// A function that needs something of its user asks in one of two ways. [Call.Ask]
// waits for the answer where it stands, with all that the function has done so far;
// where the client of the modern era has to come back with it, the request is parked
// meanwhile in this process. [Call.Input] keeps nothing: where the client has to come
// back, the function ends with the error of Input, and is called again from its
// beginning, with the answers. That survives a restart, and any replica can go on.
//
// # Tasks
//
// A tool that takes long says so by [Call.Background]: where the client takes tasks it
// gets one, and the rest runs on its own; where it does not, the rest is part of
// the call. Tasks are kept in memory. A Mux that has run tasks is ended by [Mux.Close].
//
// # Errors
//
// What a model can mend is an [Errorf]: it becomes a result with isError, which the
// model reads. An [*mcp.Error] is the protocol's and goes to the client as it is. Any
// other error is one that nobody foresaw, whose text nobody has looked for secrets in:
// the client is told that there was one, and the log of the server what it was. A
// function that panics is an error of that kind, of its own request and no other.
//
// # Changes
//
// Items are added and removed at any time, also by their own functions: a call that has
// begun goes on with what it began with. Clients that listen are told of a list that
// has changed, and fetch it anew; many changes at once are one message.
package mux
