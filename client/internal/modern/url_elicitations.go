// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	methodElicit      = "elicitation/create"
	elicitationDone   = "notifications/elicitation/complete"
	memberElicitation = "elicitationId"
)

// urlElicitations are the URLs that the client of a call was asked to open. 2025-11-25
// gives each such request an id, and a notification reports that it is complete
// (client/elicitation, "Completion Notifications for URL Mode Elicitation"). 2026-07-28
// has neither: the server simply continues. The zero value is ready, and nil is empty.
type urlElicitations struct {
	mu   sync.Mutex
	urls map[string]string // by id
}

// withID adds an id to a URL elicitation that has none. The returned function must be
// called with the response.
func (v *urlElicitations) withID(req *mcp.Request) (*mcp.Request, func(*mcp.Result), error) {
	ignore := func(*mcp.Result) {}
	if mode, _ := req.Params.Text(mcp.FieldMode); req.Method != methodElicit || mode != "url" {
		return req, ignore, nil
	}
	url := ""
	for name, value := range jsonscan.Members(req.Params.Bytes()) {
		switch name {
		case memberElicitation:
			return req, ignore, nil // the server itself will report that it is complete
		case "url":
			url = string(value)
		}
	}
	id := rand.Text()
	req, err := mcp.NewRequest(req.Method, jsonscan.WithMember(req.Params.Bytes(), memberElicitation, jsonscan.AppendString(nil, id)))
	return req, func(res *mcp.Result) { v.note(id, url, res) }, err
}

// note stores a URL that the client has agreed to open. No other can complete.
func (v *urlElicitations) note(id, url string, answer *mcp.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, value := range jsonscan.Members(answer.Bytes()) {
		if name != "action" || string(value) != `"accept"` {
			continue
		}
		if v.urls == nil {
			v.urls = make(map[string]string)
		}
		v.urls[id] = url
	}
}

// notifyComplete notifies the client of each elicitation that the server does not
// repeat in res. Without the notification a client waits for its user.
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
		params := append(jsonscan.AppendString([]byte(`{"elicitationId":`), id), '}')
		if n, err := mcp.NewNotification(elicitationDone, params); err == nil {
			_ = caller.Notify(ctx, n) // a convenience: an error changes nothing
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

// urlsOf returns the URLs, as JSON, that a result asks the client to open.
func urlsOf(res *mcp.Result) []string {
	var urls []string
	for _, question := range jsonscan.Members(res.Raw(mcp.FieldInputRequests)) {
		for name, params := range jsonscan.Members(question) {
			if name != "params" {
				continue
			}
			for name, value := range jsonscan.Members(params) {
				if name == "url" {
					urls = append(urls, string(value))
				}
			}
		}
	}
	return urls
}
