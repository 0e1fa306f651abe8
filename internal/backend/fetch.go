// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// fetcher asks a server for its lists on the gateway's own behalf.
type fetcher struct {
	cfg   Config
	scope *mcp.Scope
}

// capabilities is what the gateway says that its clients can do, when it asks
// for the lists: all that some client may be able to do, because servers list
// some tools only for clients that can be asked. What a client really can do is
// said again with each of its calls.
const capabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{"listChanged":true}}`

func listenParams() []byte {
	return []byte(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
}

// request makes a request of the gateway's own. The parameters are ours, so that
// they always parse.
func (f *fetcher) request(method string, params []byte) *mcp.Request {
	obj, err := mcp.ParseObject(params)
	if err != nil {
		obj = mcp.Object{}
	}
	return &mcp.Request{
		Method: method,
		Params: obj,
		Client: &mcp.Peer{Version: mcp.LatestModern, Info: f.cfg.Info, Capabilities: []byte(capabilities)},
		Scope:  f.scope,
	}
}

// serve sends one request, within the backend's own limits.
func (f *fetcher) serve(ctx context.Context, method string, params []byte) (*mcp.Result, error) {
	ctx, watch := newDeadline(ctx, newEar(), orDefault(f.cfg.Idle, DefaultIdle), orDefault(f.cfg.Max, DefaultMax))
	defer watch.stop()
	res, err := f.cfg.Handler.Serve(ctx, f.request(method, params), watch)
	if err != nil {
		if late := watch.expired(); late != "" {
			return nil, &mcp.Fault{Code: mcp.CodeDeadline, Backend: f.cfg.Name, Message: method + ": " + late, Cause: err}
		}
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if res == nil {
		return nil, fmt.Errorf("%s: no result", method)
	}
	return res, nil
}

// all learns what the server is and what it offers.
func (f *fetcher) all(ctx context.Context) (*Offer, error) {
	res, err := f.serve(ctx, "server/discover", nil)
	if err != nil {
		return nil, err
	}
	offer := &Offer{State: Live, Server: mcp.Peer{
		Info:         res.Raw(mcp.MetaServerInfo),
		Capabilities: res.Raw(mcp.FieldCapabilities),
	}}
	offer.Instructions, _ = res.Text(mcp.FieldInstructions)
	offer.Server.Version = firstVersion(res.Raw(mcp.FieldSupportedVersions))
	var caps serverCapabilities
	if err := jsonv2.Unmarshal(orObject(offer.Server.Capabilities), &caps); err != nil {
		return nil, fmt.Errorf("server/discover: capabilities: %w", err)
	}
	offer.Announced = caps.announces()
	for k := range catalog.NumKinds {
		if !caps.offers(k) {
			continue
		}
		if offer.Lists[k], err = f.list(ctx, k); err != nil {
			return nil, err
		}
	}
	offer.At = time.Now()
	return offer, nil
}

// serverCapabilities is the part of a server's capabilities that says which
// lists there are. Members of other kinds of values than the specification's
// count as present.
type serverCapabilities struct {
	Tools     *listCapability `json:"tools"`
	Prompts   *listCapability `json:"prompts"`
	Resources *listCapability `json:"resources"`
}

type listCapability struct {
	ListChanged bool `json:"listChanged"`
}

func (c serverCapabilities) of(k catalog.Kind) *listCapability {
	switch k {
	case catalog.Tools:
		return c.Tools
	case catalog.Prompts:
		return c.Prompts
	default:
		return c.Resources
	}
}

func (c serverCapabilities) offers(k catalog.Kind) bool { return c.of(k) != nil }

func (c serverCapabilities) announces() bool {
	for k := range catalog.NumKinds {
		if l := c.of(k); l != nil && l.ListChanged {
			return true
		}
	}
	return false
}

// list fetches every page of one list, within bounds. A server that declared the
// capability and does not know the method offers none of it: resource templates,
// often.
func (f *fetcher) list(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	l := catalog.List{Public: true}
	maxItems := orDefault(f.cfg.MaxItems, DefaultMaxItems)
	maxPages := orDefault(f.cfg.MaxPages, DefaultMaxPages)
	seen := map[string]bool{}
	var params []byte
	for range maxPages {
		res, err := f.serve(ctx, k.Method(), params)
		if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
			return l, nil
		}
		if err != nil {
			return catalog.List{}, err
		}
		if err := add(&l, res, k); err != nil {
			return catalog.List{}, fmt.Errorf("%s: %w", k.Method(), err)
		}
		next, more := res.Text(mcp.FieldNextCursor)
		switch {
		case !more:
			return l, nil
		case len(l.Items) >= maxItems:
			l.Items = l.Items[:maxItems:maxItems]
			l.Problem = fmt.Sprintf("%s: only the first %d items are kept (limits.toolsPerBackend)", k.Method(), maxItems)
			return l, nil
		case seen[next]:
			l.Problem = fmt.Sprintf("%s: the cursors run in a circle; the first %d items are kept", k.Method(), len(l.Items))
			return l, nil
		}
		seen[next] = true
		params = mcp.AppendString([]byte(`{"cursor":`), next)
		params = append(params, '}')
	}
	l.Problem = fmt.Sprintf("%s: only the first %d pages are kept (limits.pages)", k.Method(), maxPages)
	return l, nil
}

// add appends one page. The list is as private, and as short-lived, as the most
// private and the shortest-lived of its pages.
func add(l *catalog.List, res *mcp.Result, k catalog.Kind) error {
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

func firstVersion(raw []byte) mcp.Version {
	var vs []mcp.Version
	if jsonv2.Unmarshal(raw, &vs) != nil || len(vs) == 0 {
		return ""
	}
	return vs[0]
}

func orObject(raw []byte) []byte {
	if raw == nil {
		return []byte("{}")
	}
	return raw
}
