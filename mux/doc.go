// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mux makes an [mcp.Handler] of tools, prompts, resources and templates, as
// [net/http.ServeMux] makes one of patterns. A server of one tool:
//
//	m := &mux.Mux{Name: "clock", Version: "1"}
//	err := m.Add(mux.Tool{
//		Name: "now",
//		Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
//			return mux.Say("It is %s.", time.Now().Format(time.Kitchen)), nil
//		},
//	})
//	...
//	http.Handle("/mcp", server.New(m, server.Config{}))
//
// A function is called with a [Call]: what was asked, and by whom, and the way back
// to the client while it is served (progress, log messages, questions). It knows no
// revision: package server says everything as the client's has it, so that each tool
// serves clients of all of them.
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
// the call. A Mux that has run tasks is ended by [Mux.Close].
//
// # Errors
//
// What a model can mend is an [Errorf]: it becomes a result with isError, which the
// model reads. An [*mcp.Error] is the protocol's and goes to the client as it is. Any
// other error is one that nobody foresaw, whose text nobody has looked for secrets in:
// the client is told that there was one.
package mux
