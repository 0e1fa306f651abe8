// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/bound"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// filtered is the decision about a call that a filter has refused, or that has a result with a
// replacement. The rule is the path of the filter.
const filtered = "filtered"

// compileFilters returns the filters of a valid configuration, or nil if there are no filters.
// before may be nil.
func compileFilters(cfg *config.Config, before *view) *bound.Filters {
	if before != nil && before.filters != nil && before.cfg != nil && reflect.DeepEqual(before.cfg.Filters, cfg.Filters) {
		return before.filters
	}
	f, err := cfg.CompileFilters()
	if err != nil {
		panic("valid filters do not compile: " + err.Error()) //nolint:forbidigo // Validate compiles them
	}
	return f
}

// targetOf returns what the patterns of filters are compared with for an item.
func targetOf(e *catalog.Entry) bound.Target {
	switch e.Kind {
	case catalog.Templates:
		fixed, _, open := strings.Cut(e.Offered(), "{")
		return bound.Target{Name: fixed, IsURI: true, IsBegin: open}
	case catalog.Resources, catalog.Skills:
		return bound.Target{Name: e.Offered(), IsURI: true, Plain: e.Plain()}
	default:
		return bound.Target{Name: e.Offered()}
	}
}

// refuseByFilter returns the answer of a request with arguments that a filter refuses, or nil.
func (g *Gateway) refuseByFilter(req *mcp.Request, f lookupResult) *policyRefusal {
	if req.Method != "tools/call" && req.Method != "prompts/get" && req.Method != "completion/complete" {
		return nil // no arguments
	}
	e := f.entry
	index, say, refused := f.filters.Refuse(targetOf(e), &bound.Call{
		Call:     policy.Call{Method: req.Method, Args: argumentsOf(req)},
		Identity: viewerOf(req).currentIdentity(), Peer: req.Client,
		Item: func() *policy.Item {
			return policy.NewItem(policyKind(e.Kind), e.BackendName, e.Offered(), e.Own, e.JSON())
		},
	})
	if !refused {
		return nil
	}
	why := g.filteredBy(index)
	text := why.rule + ": " + say
	if req.Method == "tools/call" {
		res, err := toolError(text)
		return &policyRefusal{res, err, why}
	}
	return &policyRefusal{err: &mcp.Fault{Code: mcp.CodeInvalidParams, Outcome: mcp.NotDispatched, Reason: code.FilterRefused, Message: text}, why: why}
}

// filteredBy counts and returns the decision of a filter.
func (g *Gateway) filteredBy(index int) verdict {
	why := verdict{decision: filtered, rule: config.FilterPath(index)}
	g.metrics.Decisions(why.rule, filtered).Inc()
	return why
}

// resultFilter filters the results of one item, or of one task.
type resultFilter struct {
	*bound.Results

	server string
	most   int64 // how much it may add
}

// resultFilter returns the filter for the results of an item, or nil.
func (a admitted) resultFilter(method string) *resultFilter {
	if method == "completion/complete" {
		return nil
	}
	return a.newResultFilter(a.entry.BackendName, a.filters.Results(targetOf(a.entry)))
}

func (v *view) newResultFilter(server string, of *bound.Results) *resultFilter {
	if of == nil {
		return nil
	}
	most := v.cfg.Limits.BackendMessage
	if most < 0 {
		most = math.MaxInt64
	}
	return &resultFilter{of, server, most}
}

// taskFilter returns the filter for the results of a task of a client, or nil. If the tool that has
// started it is not known, or has another name since, it is that for all tools of the backend.
func (g *Gateway) taskFilter(req *mcp.Request, b *activeBackend, name string) *resultFilter {
	v := g.view.Load()
	if v.filters == nil {
		return nil
	}
	if own, ok := g.taskRegistry.toolOf(ownerOf(req), name); ok {
		if e, ok := toolAt(g.viewFor(viewerOf(req)).catalog, b.Name(), own); ok {
			return v.newResultFilter(b.Name(), v.filters.Results(targetOf(e)))
		}
	}
	targets := []bound.Target{{Name: b.srv.NamePrefix(), IsBegin: true}}
	for _, renamed := range b.srv.Rename {
		targets = append(targets, bound.Target{Name: renamed})
	}
	return v.newResultFilter(b.Name(), v.filters.Results(targets...))
}

// apply returns a result after the filters, and the index of one that has replaced something, or
// -1. A result that cannot be filtered is replaced by an error. method is that of its request.
func (f *resultFilter) apply(method string, res *mcp.Result) (out *mcp.Result, redacted int, err error) {
	if res == nil {
		return nil, -1, nil
	}
	failed := func(index int) (*mcp.Result, int, error) {
		const text = "its result could not be filtered, and is withheld"
		if method == "tools/call" {
			res, err := toolError("backend " + f.server + ": " + text + "; the request was executed")
			return res, index, err
		}
		return nil, index, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Backend: f.server, Reason: code.FilterFailed, Message: text}
	}
	if res.Delivered {
		return failed(-1)
	}
	raw, index, err := f.Apply(res.Bytes(), f.server, f.most)
	if err != nil {
		return failed(index)
	}
	switch out, err = withBytes(res, raw); {
	case err != nil:
		return failed(index)
	case out == res:
		return res, -1, nil
	}
	return out, index, nil
}

// filterResult applies a filter to the answer to a call. why is the decision about the call so far.
func (g *Gateway) filterResult(f *resultFilter, method string, why verdict, res *mcp.Result) (verdict, *mcp.Result, error) {
	res, index, err := f.apply(method, res)
	if index >= 0 {
		now := g.filteredBy(index)
		now.as, now.answer = why.as, why.answer
		why = now
	}
	return why, res, err
}

// notice applies a filter to a notification of a task. It returns nil if it cannot be filtered.
func (f *resultFilter) notice(n *mcp.Notification) *mcp.Notification {
	raw, _, err := f.Apply(n.Params.Bytes(), f.server, f.most)
	if err != nil {
		return nil
	}
	return withParams(n, raw)
}

// filters explains which filters are for an item.
func (x *explainer) filters(it *ExplainedItem, d *catalog.Decision) {
	if x.v.filters == nil {
		return
	}
	uses := x.v.filters.Uses(targetOf(&catalog.Entry{Kind: d.Kind, Name: d.OfferedAs()}))
	for _, i := range slices.Sorted(maps.Keys(uses)) {
		it.step(x.places.Setting("", "filters", i), "%s %s", config.FilterPath(i), uses[i])
	}
}
