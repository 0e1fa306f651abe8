// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file pins the HTML of apps. It is no item of a list: it is judged when a client reads the URI that a tool
// names, under the backend's own URI.

// pages are the keys of the pages that tools name or the lock file has, by the server and the plain form of the URI.
type pages map[[2]string]pins.Key

// add adds a page.
func (p pages) add(key pins.Key) {
	at := [2]string{key.Server, glob.PlainURI(key.Name)}
	if _, ok := p[at]; !ok {
		p[at] = key
	}
}

// pagesOf returns the pages of a view.
func (v *view) pagesOf() pages {
	all := make(pages)
	for _, key := range v.cfg.Lock().Keys() {
		if key.Kind == pins.Page {
			all.add(key)
		}
	}
	v.addNamed(all)
	return all
}

// addNamed adds the pages that tools name, as their servers list them.
func (v *view) addNamed(to pages) {
	for i, b := range v.backends {
		if b.isOwn(v.offered[i]) {
			continue
		}
		for _, tool := range v.offered[i].Lists[catalog.Tools].Items {
			for _, uri := range pins.PageURIs(tool) {
				to.add(pins.Key{Server: b.Name(), Kind: pins.Page, Name: uri})
			}
		}
	}
}

// pageRead is a request for a page.
type pageRead struct {
	pins *pinsInUse
	key  pins.Key
	log  *slog.Logger
}

// pageRead returns what judges the result of a request, or nil if it is not for a pinned page.
func (g *Gateway) pageRead(f lookupResult, method, uri string) *pageRead {
	if method != "resources/read" || !pins.IsPageURI(uri) || f.pages == nil || f.cfg.Lock() == nil {
		return nil
	}
	key, ok := f.pages()[[2]string{f.entry.BackendName, glob.PlainURI(f.entry.Own)}]
	if !ok {
		return nil
	}
	return &pageRead{f.pins, key, g.log}
}

// judge returns the result, or an error if the page is held.
func (r *pageRead) judge(res *mcp.Result) (*mcp.Result, error) {
	if res == nil {
		return nil, nil
	}
	v := pins.Verdict{State: pins.Changed}
	if !res.Delivered {
		definition, ok := pins.PageOf(res.Bytes())
		if !ok {
			return res, nil // it asks for input
		}
		v = r.pins.judge(r.key, definition)
	}
	problem, _ := pinProblem(&v, r.key.Server)
	if r.pins.noteHeld(r.key, problem) {
		r.log.Warn("page of an app is not the approved one", slog.String("backend", r.key.Server), slog.String("code", code.ItemHeld), slog.String("uri", r.key.Name), slog.String("problem", problem))
	}
	if !v.Held() {
		return res, nil
	}
	return nil, &mcp.Fault{
		Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Backend: r.key.Server, Reason: code.ItemHeld,
		Message: "the page of an app is not the approved one, and is withheld; signalbox approve shows the operator the change",
	}
}

// maxHeldPages bounds the pages that are known to be held: servers choose their names.
const maxHeldPages = 1000

// noteHeld keeps the problem of a page, or that it has none. It reports whether that is a new problem.
func (p *pinsInUse) noteHeld(key pins.Key, problem string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[key] == problem {
		return false
	}
	if problem == "" {
		delete(p.held, key)
		return false
	}
	if p.held == nil || len(p.held) >= maxHeldPages {
		p.held = make(map[pins.Key]string)
	}
	p.held[key] = problem
	return true
}

// heldPages returns a line for each page that was not the approved one when it was last read.
func (p *pinsInUse) heldPages() (lines []string) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, problem := range p.held {
		lines = append(lines, fmt.Sprintf("backend %q: page %s: %s [%s]", key.Server, pins.Spell(key.Name), problem, code.ItemHeld))
	}
	slices.Sort(lines)
	return lines
}

const (
	// pageTimeout bounds the request for a page, and pagesTimeout those for all pages of all servers.
	pageTimeout  = 10 * time.Second
	pagesTimeout = 30 * time.Second
)

// ReadPages reads the HTML of the apps of the servers in all, and adds it, compared with the lock file. Of tools for
// clients that render apps alone it reads the pages only after ReadAppTools. A page that cannot be
// read is in Unread of its server.
func (g *Gateway) ReadPages(ctx context.Context, all *Definitions) {
	ctx, cancel := context.WithTimeout(ctx, pagesTimeout)
	defer cancel()
	v := g.view.Load()
	named, keys := make(pages), make(map[string][]namedPage)
	v.addNamed(named)
	plain := maps.Clone(named)
	all.addNamedByApps(named)
	for at, key := range named {
		_, isPlain := plain[at]
		keys[key.Server] = append(keys[key.Server], namedPage{key, !isPlain})
	}
	read := make([][]Definition, len(all.Servers))
	var group sync.WaitGroup
	for i := range all.Servers {
		s := &all.Servers[i]
		b, ok := v.backend(s.Name)
		if !ok || keys[s.Name] == nil {
			continue
		}
		// Ends with ctx; waited for below.
		group.Go(func() { read[i] = v.readPages(ctx, b, keys[s.Name], s) })
	}
	group.Wait()
	all.Items = slices.Concat(append([][]Definition{all.Items}, read...)...)
}

// namedPage is a page that a tool names.
type namedPage struct {
	pins.Key

	byApps bool // only tools for clients that render apps name it, so that it is read as such a client
}

// readPages reads the pages of one server.
func (v *view) readPages(ctx context.Context, b *activeBackend, named []namedPage, s *DefinedServer) []Definition {
	slices.SortFunc(named, func(a, b namedPage) int { return cmp.Compare(a.Name, b.Name) })
	var d Definitions
	for _, page := range named {
		definition, err := readPage(ctx, b, page)
		if err != nil {
			s.Unread = append(s.Unread, UnreadPage{page.Name, err.Error()})
			continue
		}
		d.add(v.pins, page.Key, definition)
	}
	return d.Items
}

// readPage reads a page.
func readPage(ctx context.Context, b *activeBackend, page namedPage) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := mcp.NewRequest("resources/read", append(jsonscan.AppendString([]byte(`{"uri":`), page.Name), '}'))
	if err != nil {
		return nil, err
	}
	if page.byApps {
		req.Client = b.PeerOf(backend.AllFeatures | backend.RendersApps)
	}
	res, err := b.Backend.Serve(ctx, req, noCaller{})
	if err != nil {
		return nil, err
	}
	definition, ok := pins.PageOf(res.Bytes())
	if !ok {
		return nil, errors.New("the result of resources/read has no contents")
	}
	return definition, nil
}
