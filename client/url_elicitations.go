// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	methodElicit      = "elicitation/create"
	elicitationDone   = "notifications/elicitation/complete"
	memberElicitation = "elicitationId"
)

// urlElicitations are the URLs that the client of a call was asked to visit. 2025-11-25
// gives each such question an id, and has a notification that says when the visit
// has led to something (client/elicitation, "Completion Notifications for URL Mode
// Elicitation"). 2026-07-28 has neither: there the server says it by going on. The
// zero value is ready, and nil has none.
type urlElicitations struct {
	mu   sync.Mutex
	urls map[string]string // by id
}

// named returns the question with an id, if it is one of these and has none, and
// what is to be called with the answer.
func (v *urlElicitations) withID(req *mcp.Request) (*mcp.Request, func(*mcp.Result), error) {
	ignore := func(*mcp.Result) {}
	if mode, _ := req.Params.Text(mcp.FieldMode); req.Method != methodElicit || mode != "url" {
		return req, ignore, nil
	}
	url := ""
	for name, value := range mcp.Members(req.Params.Bytes()) {
		switch name {
		case memberElicitation:
			return req, ignore, nil // its server tells of it as well
		case "url":
			url = string(value)
		}
	}
	id := rand.Text()
	req, err := mcp.NewRequest(req.Method, mcp.WithMember(req.Params.Bytes(), memberElicitation, mcp.AppendString(nil, id)))
	return req, func(res *mcp.Result) { v.note(id, url, res) }, err
}

// note keeps a visit that the client has agreed to: nothing else can complete.
func (v *urlElicitations) note(id, url string, answer *mcp.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, value := range mcp.Members(answer.Bytes()) {
		if name != "action" || string(value) != `"accept"` {
			continue
		}
		if v.urls == nil {
			v.urls = make(map[string]string)
		}
		v.urls[id] = url
	}
}

// tell says of each visit that the server does not ask for again that it is
// complete. A client that is not told waits for its user to say so.
func (v *urlElicitations) notifyComplete(ctx context.Context, res *mcp.Result, caller mcp.Caller) {
	urls := v.take()
	if len(urls) == 0 {
		return
	}
	wanted := urlsOf(res)
	for _, id := range slices.Sorted(maps.Keys(urls)) {
		if slices.Contains(wanted, urls[id]) {
			continue
		}
		params := append(mcp.AppendString([]byte(`{"elicitationId":`), id), '}')
		if n, err := mcp.NewNotification(elicitationDone, params); err == nil {
			_ = caller.Notify(ctx, n) // for convenience: whoever has gone misses nothing
		}
	}
}

func (v *urlElicitations) take() map[string]string {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	urls := v.urls
	v.urls = nil
	return urls
}

// urlsOf returns the URLs that a result asks for visits to, as JSON.
func urlsOf(res *mcp.Result) []string {
	var urls []string
	for _, question := range mcp.Members(res.Raw(mcp.FieldInputRequests)) {
		for name, params := range mcp.Members(question) {
			if name != "params" {
				continue
			}
			for name, value := range mcp.Members(params) {
				if name == "url" {
					urls = append(urls, string(value))
				}
			}
		}
	}
	return urls
}
