// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// fetcher fetches the lists of a server on behalf of a client.
type fetcher struct {
	b      *Backend
	client Client

	announced listSet // set by discover: the lists that the server announces changes of
}

// listenParams requests every list, whatever the server has announced: its
// acknowledgement names those that it notifies of.
func listenParams() []byte {
	return []byte(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
}

// request returns a request of the gateway's own. The parameters are ours, so that they
// always parse.
func (f *fetcher) request(method string, params []byte) *mcp.Request {
	obj, err := mcp.ParseObject(params)
	if err != nil {
		obj = mcp.Object{}
	}
	req := &mcp.Request{Method: method, Params: obj, Client: f.client.Peer, Principal: f.client.Principal, Scope: f.client.Scope}
	if method == catalog.Skills.Method() {
		// The gateway is the other party of the extension, whatever the client is.
		var peer mcp.Peer
		if req.Client != nil {
			peer = *req.Client
		}
		peer.Capabilities = extension.WithSkills(peer.Capabilities)
		req.Client = &peer
	}
	if f.b.cfg.Identity != nil {
		req.Identity = f.b.cfg.Identity()
	}
	return req
}

// serve sends one request within limits. maxKey is the configuration key of the maximum.
func (f *fetcher) serve(ctx context.Context, limits *limits, maxKey, method string, params []byte) (*mcp.Result, error) {
	ctx, watch := limits.begin(ctx, newListListener(f.client.unrelated()), nil)
	defer watch.stop()
	req, times := f.request(method, params), new(mcp.Timeline)
	times.Begin(time.Now())
	req.Timeline = times
	res, err := f.b.serve(ctx, req, watch)
	if observe := f.b.cfg.Observe; observe != nil && ctx.Err() == nil {
		observe(method, sentFor(times), err)
	}
	if err != nil {
		if late := watch.expired(maxKey); late != "" {
			return nil, &mcp.Fault{Code: mcp.CodeDeadline, Backend: f.b.cfg.Name, Reason: cmp.Or(reasonCode(err), code.TalkSilent), Message: method + ": " + late, Cause: err}
		}
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if res == nil {
		return nil, fmt.Errorf("%s: no result", method)
	}
	return res, nil
}

// sentFor returns how long a request that has ended just now took from when it was sent,
// or zero if it was not. A Handler in this process marks nothing.
func sentFor(times *mcp.Timeline) time.Duration {
	sent, ok := times.At(mcp.StageSent)
	if !ok && times.Attempts() > 0 {
		return 0
	}
	last, ok := times.At(mcp.StageLastByte)
	if !ok {
		last = time.Since(times.Received())
	}
	return max(last-max(sent, 0), 1)
}

// discover fetches the server's description and the lists that it offers.
func (f *fetcher) discover(ctx context.Context) (*Offer, error) {
	// It may be the first request, for which the server starts.
	limits := newLimits(&Config{Idle: -1, Max: cmp.Or(f.b.cfg.Handshake, DefaultIdle)})
	res, err := f.serve(ctx, limits, "limits.handshake", "server/discover", nil)
	if err != nil {
		return nil, err
	}
	offer := &Offer{State: Live, Server: mcp.Peer{
		Info:         res.Raw(mcp.MetaServerInfo),
		Capabilities: res.Raw(mcp.FieldCapabilities),
	}}
	offer.Instructions, _ = res.Text(mcp.FieldInstructions)
	var versions []mcp.Version
	if jsonv2.Unmarshal(res.Raw(mcp.FieldSupportedVersions), &versions) == nil && len(versions) > 0 {
		offer.Server.Version = versions[0] // for display only: the client of the server negotiates the revision
	}
	var capabilities map[string]jsontext.Value
	if err := jsonv2.Unmarshal(orObject(offer.Server.Capabilities), &capabilities); err != nil {
		return nil, fmt.Errorf("server/discover: capabilities: %w", err)
	}
	for k, name := range [...]string{catalog.Tools: "tools", catalog.Prompts: "prompts", catalog.Resources: "resources", catalog.Templates: "resources"} {
		declared := capabilities[name]
		if declared == nil || declared.Kind() == 'n' {
			continue
		}
		offer.offered |= 1 << k
		// A value of another type than in the specification counts as present, without
		// announcing changes.
		var of struct {
			ListChanged bool `json:"listChanged"`
		}
		if jsonv2.Unmarshal(declared, &of) == nil && of.ListChanged {
			f.announced |= 1 << k
		}
	}
	// The extension has no notification of changes: its list expires.
	if extension.SkillsOf(offer.Server.Capabilities).Lists {
		offer.offered |= 1 << catalog.Skills
	}
	return offer, nil
}

// maxListBytes bounds the memory for one list of a backend. A list of the largest
// number of items, each with a large schema, is far below.
const maxListBytes = 32 << 20

// list fetches every page of one list, within the bounds. A server that declared the
// capability and does not know the method offers no items: often it has no resource
// templates.
func (f *fetcher) list(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	l := catalog.List{Public: true}
	maxItems := boundOrMax(f.b.cfg.MaxItems, DefaultMaxItems)
	maxPages := boundOrMax(f.b.cfg.MaxPages, DefaultMaxPages)
	seen := map[string]bool{}
	var params []byte
	var last *mcp.Result
	for range maxPages {
		res, err := f.serve(ctx, f.b.limits, f.b.cfg.MaxKey, k.Method(), params)
		switch {
		case errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
			return l, nil
		case string(params) == emptyCursor && isPastLastPage(res, err, last, k.Field()):
			return truncate(l, k, maxItems, false), nil
		case err != nil:
			return catalog.List{}, err
		}
		last = res
		if err := appendPage(&l, res, k); err != nil {
			return catalog.List{}, fmt.Errorf("%s: %w", k.Method(), err)
		}
		next, more := res.Text(mcp.FieldNextCursor)
		switch {
		case !more:
			return truncate(l, k, maxItems, false), nil
		case len(l.Items) >= maxItems, totalBytes(&l) > maxListBytes:
			return truncate(l, k, maxItems, true), nil
		case seen[next]:
			l.Problem = fmt.Sprintf("%s: the cursors repeat; the first %d items are kept", k.Method(), len(l.Items))
			return l, nil
		}
		seen[next] = true
		params = jsonscan.AppendString([]byte(`{"cursor":`), next)
		params = append(params, '}')
	}
	l.Code = code.ItemTooLarge
	l.Problem = fmt.Sprintf("%s: only the first %d pages are kept (limits.pages)", k.Method(), maxPages)
	return l, nil
}

// emptyCursor are the parameters with the empty string as cursor, which is a valid one
// (2026-07-28, server/utilities/pagination, "Implementation Guidelines").
const emptyCursor = `{"cursor":""}`

// isPastLastPage reports whether the answer to an empty cursor shows that the server
// meant "no next page" by it, as some servers do: it rejects the cursor, or returns the
// same page again.
func isPastLastPage(res *mcp.Result, err error, last *mcp.Result, f mcp.Field) bool {
	if err != nil {
		return errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams})
	}
	return bytes.Equal(res.Raw(f), last.Raw(f))
}

// truncate cuts a list to the bounds. more reports that there are items beyond those.
func truncate(l catalog.List, k catalog.Kind, maxItems int, more bool) catalog.List {
	n, total := 0, 0
	for n < len(l.Items) && n < maxItems && total+len(l.Items[n]) <= maxListBytes {
		total += len(l.Items[n])
		n++
	}
	if n == len(l.Items) && !more {
		return l
	}
	l.Code = code.ItemTooLarge
	if n == maxItems {
		l.Problem = fmt.Sprintf("%s: only the first %d items are kept (limits.toolsPerBackend)", k.Method(), n)
	} else {
		l.Problem = fmt.Sprintf("%s: only the first %d items are kept (%d MiB)", k.Method(), n, maxListBytes>>20)
	}
	l.Items = slices.Clone(l.Items[:n]) // so that the dropped items are not retained
	return l
}

// totalBytes returns the size of the items, which is nearly all of the memory of a
// list.
func totalBytes(l *catalog.List) int {
	n := 0
	for _, item := range l.Items {
		n += len(item)
	}
	return n
}

// boundOrMax returns a bound that is not negative: no limit becomes a large number.
func boundOrMax(v, def int) int {
	if v < 0 {
		return math.MaxInt32
	}
	return cmp.Or(v, def)
}

// appendPage appends one page. The list is as private as its most private page, and its
// time to live is the shortest of the pages.
func appendPage(l *catalog.List, res *mcp.Result, k catalog.Kind) error {
	raw := res.Raw(k.Field())
	if raw == nil {
		return fmt.Errorf("the result has no member %q", k.Field().Key())
	}
	var items []json.RawMessage
	if err := jsonv2.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("%s: %w", k.Field().Key(), err)
	}
	l.Items = append(l.Items, items...)
	if scope, _ := res.Text(mcp.FieldCacheScope); scope != "public" {
		l.Public = false
	}
	if ms, ok := res.Int(mcp.FieldTTL); ok && ms > 0 {
		ttl := time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond
		if l.TTL == 0 || ttl < l.TTL {
			l.TTL = ttl
		}
	}
	return nil
}

// orObject returns "{}" for nil: a server without a capabilities object has declared
// nothing.
func orObject(raw []byte) []byte {
	if raw == nil {
		return []byte("{}")
	}
	return raw
}
