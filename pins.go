// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"weak"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// This file applies internal/pins to the lists of backends, before the catalog is built from them: what is
// held is in no list, no search and no call, since none of them has it.

// pinsInUse are the approved definitions of a configuration. Nil judges nothing.
type pinsInUse struct {
	cfg     *config.Config
	policy  pins.Policy
	digests *pins.Digester

	mu    sync.Mutex
	texts map[pins.Digest][]byte   // of approved definitions; nil for one that is missing
	held  map[pins.Key]string      // pages that were held when they were last read, and why
	apps  map[catalog.Problem]bool // those of clients that render apps that are in the log
	known map[listedItem]itemPin   // the latest items
}

func newPinsInUse(cfg *config.Config) *pinsInUse {
	return &pinsInUse{cfg: cfg, policy: cfg.Pins.Policy(), digests: pins.NewDigester(cfg.Pins.Ignore), texts: make(map[pins.Digest][]byte)}
}

// text returns the text of an approved definition. It is read when it is needed first.
func (p *pinsInUse) text(d pins.Digest) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, ok := p.texts[d]
	if !ok {
		text, _ = p.readText(d)
		p.texts[d] = text
	}
	return text, text != nil
}

// readText reads the text of an approved definition. A text that does not have its digest is missing: it may have been
// changed, so that a difference from it shows too little.
func (p *pinsInUse) readText(d pins.Digest) ([]byte, bool) {
	text, ok := p.cfg.ApprovedText(d)
	if !ok || p.digests.Of(text) != d {
		return nil, false
	}
	return text, true
}

// pinKinds are the kinds of items that are pinned. A resource is not: its name and its description are data
// of the server, like its content.
//
//nolint:gochecknoglobals // never changed
var pinKinds = map[catalog.Kind]pins.Kind{catalog.Tools: pins.Tool, catalog.Prompts: pins.Prompt, catalog.Templates: pins.Template, catalog.Skills: pins.Skill}

// pinKey returns the key of an item as its backend lists it, if it is pinned.
func pinKey(backend string, k catalog.Kind, item []byte) (pins.Key, bool) {
	kind, ok := pinKinds[k]
	if !ok {
		return pins.Key{}, false
	}
	member := "name"
	switch k {
	case catalog.Templates:
		member = "uriTemplate"
	case catalog.Skills:
		member = "uri"
	default:
	}
	for name, value := range jsonscan.Members(item) {
		if name == member {
			own, ok := jsonscan.DecodeText(value)
			return pins.Key{Server: backend, Kind: kind, Name: own}, ok
		}
	}
	return pins.Key{}, false // the catalog leaves it out
}

// judge returns the verdict about a definition.
func (p *pinsInUse) judge(key pins.Key, definition json.RawMessage) pins.Verdict {
	return p.cfg.Lock().Judge(key, definition, p.digests, p.text, p.policy)
}

// listedItem is an item of a list of a backend, by its place in memory: lists are kept until the next ones are fetched,
// and their items are never changed.
type listedItem struct {
	backend string
	kind    catalog.Kind
	face    pins.Face
	first   weak.Pointer[byte]
	size    int
}

// itemPin is what becomes of an item. Its Item is nil for the item itself, which is not kept alive.
type itemPin catalog.Pin

// maxJudged bounds the items with a judgement that is kept.
const maxJudged = 20_000

// judgeItem is the Options.Pin of the catalog. It judges an item when its list has been fetched, and not for each
// catalog that has it.
func (p *pinsInUse) judgeItem(backend string, k catalog.Kind, item json.RawMessage) catalog.Pin {
	return p.judgeListed(backend, k, pins.Plain, item)
}

// judgeListed is judgeItem for a list of the face.
func (p *pinsInUse) judgeListed(backend string, k catalog.Kind, face pins.Face, item json.RawMessage) catalog.Pin {
	if p == nil || len(item) == 0 {
		return catalog.Pin{Item: item}
	}
	at := listedItem{backend, k, face, weak.Make(&item[0]), len(item)}
	p.mu.Lock()
	j, ok := p.known[at]
	p.mu.Unlock()
	if !ok {
		j = p.judgeNew(backend, k, face, item)
		p.keep(at, j)
	}
	if j.Item == nil {
		j.Item = item
	}
	return catalog.Pin(j)
}

func (p *pinsInUse) keep(at listedItem, j itemPin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxJudged {
		p.known = make(map[listedItem]itemPin)
	}
	p.known[at] = j
}

func (p *pinsInUse) judgeNew(backend string, k catalog.Kind, face pins.Face, item json.RawMessage) (j itemPin) {
	key, ok := pinKey(backend, k, item)
	if !ok {
		return j
	}
	key.Face = face
	v := p.judge(key, item)
	j.Held = v.Held()
	if v.State == pins.Frozen {
		j.Item = v.Use
	}
	j.Problem, j.Code = pinProblem(&v, backend)
	return j
}

// pinProblem describes a verdict, or returns "" for a definition that is offered without a remark. It quotes nothing of
// the definition.
func pinProblem(v *pins.Verdict, server string) (problem, problemCode string) {
	cure := fmt.Sprintf(": look at it with signalbox approve %s", server)
	switch {
	case v.State == pins.Frozen:
		return "its text has changed since it was approved, and the approved definition is offered" + cure, code.ItemFrozen
	case v.Sign != "" && v.Held():
		return fmt.Sprintf("it has a character that people do not see (%s)", v.Sign) + cure, code.ItemHiddenText
	case v.State == pins.Changed && v.Held():
		return "its definition has changed since it was approved" + cure, code.ItemHeld
	case v.State == pins.Changed:
		return "it is offered, and its definition has changed since it was approved" + cure, code.ItemHeld
	case v.State == pins.New && v.Held():
		return "it is not approved yet" + cure, code.ItemHeld
	default:
		return "", ""
	}
}

// instructions returns the instructions of a backend that are offered: none if they are held.
func (p *pinsInUse) instructions(backend, text string) string {
	if p == nil || text == "" {
		return text
	}
	v := p.judge(pins.Key{Server: backend, Kind: pins.Instructions}, jsonscan.AppendString(nil, text))
	use, _ := jsonscan.DecodeText(v.Use)
	return use
}

// isOwn reports whether what a backend lists is of this program and not of a server.
func (b *activeBackend) isOwn(o *backend.Offer) bool { return b.client == nil || b.needsGate(o) }

// Definition is what a server offers to models, as the server gives it.
type Definition struct {
	Server string `json:"server"`
	Kind   string `json:"kind"`           // tool, prompt, template, skill or instructions; with ReadPages also page
	Name   string `json:"name"`           // its own name or URI; "" for instructions
	Face   string `json:"face,omitempty"` // ui for a tool that is listed so to clients that render apps; by ReadAppTools
	Listed string `json:"listed"`         // the definition, as JSON text

	State    string `json:"state"`              // unpinned, approved, new, changed or frozen
	Held     bool   `json:"held"`               // neither listed nor called
	Sign     string `json:"sign,omitempty"`     // a character that people do not see, such as U+200B
	Approved string `json:"approved,omitempty"` // the approved definition that it is compared with, if it is another one and its text is there

	// Advice is about texts that are addressed to the model or name tools of other servers, unless the definition is
	// approved. Nothing follows from it.
	Advice []pins.Note `json:"advice,omitempty"`
}

// DefinedServer is a server of Definitions.
type DefinedServer struct {
	Name    string `json:"name"`
	Is      string `json:"is"`                // as the server names itself
	Version string `json:"version"`           // of it
	Package string `json:"package,omitempty"` // that is installed and run, as the configuration has it
	Known   bool   `json:"known"`             // all its definitions are here
	Reason  string `json:"reason,omitempty"`

	Unread []UnreadPage `json:"unread,omitempty"` // by ReadPages
}

// UnreadPage is the HTML of an app that could not be read.
type UnreadPage struct {
	URI    string `json:"uri"` // its own, of the server
	Reason string `json:"reason"`
}

// Definitions are what all servers offer to models, compared with the lock file.
type Definitions struct {
	Servers []DefinedServer `json:"servers"`
	Items   []Definition    `json:"items"`
}

// Definitions returns the definitions of the current lists, in the order of the configuration, also those that rules
// leave out. It does not wait for backends.
func (g *Gateway) Definitions() *Definitions { return g.view.Load().definitions() }

func (v *view) definitions() *Definitions {
	all := &Definitions{Servers: []DefinedServer{}, Items: []Definition{}}
	seen := make(map[pins.Key]bool)
	for i, b := range v.backends {
		o := v.offered[i]
		if b.isOwn(o) {
			continue
		}
		in := b.input(o)
		s := DefinedServer{Name: b.Name(), Known: o.Known(), Reason: o.Reason}
		s.Is, s.Version = infoMember(o.Server.Info, "name"), infoMember(o.Server.Info, "version")
		if p, ok := runner.Find(b.srv.Command, b.srv.Args); ok {
			s.Package = p.Spec()
		}
		if in.Instructions != "" {
			all.add(v.pins, pins.Key{Server: b.Name(), Kind: pins.Instructions}, jsonscan.AppendString(nil, in.Instructions))
		}
		for k := range catalog.NumKinds {
			if problem := in.Lists[k].Problem; problem != "" {
				s.Known, s.Reason = false, problem
			}
			for _, item := range in.Lists[k].Items {
				if key, ok := v.pinKey(b.Name(), k, item); ok && !seen[key] { // the first one counts, as in the catalog
					seen[key] = true
					all.add(v.pins, key, item)
				}
			}
		}
		all.Servers = append(all.Servers, s)
	}
	all.advise()
	return all
}

// advise adds the advice.
func (d *Definitions) advise() {
	var adviser pins.Adviser
	for i := range d.Items {
		if it := &d.Items[i]; it.Kind == string(pins.Tool) {
			adviser.Add(it.Server, it.Name)
		}
	}
	for i := range d.Items {
		if it := &d.Items[i]; it.State != string(pins.Approved) {
			it.Advice = adviser.Advise(it.Server, []byte(it.Listed))
		}
	}
}

// adviceOf returns how many definitions of each server, by its name, have advice.
func (v *view) adviceOf() map[string]int {
	counts := make(map[string]int)
	for _, it := range v.definitions().Items {
		if it.Advice != nil {
			counts[it.Server]++
		}
	}
	return counts
}

// adviceText describes how many definitions of a server have advice.
func (v *view) adviceText(server string) string {
	if v.advice == nil || v.advice()[server] == 0 {
		return ""
	}
	n, cure := v.advice()[server], "signalbox lock shows them"
	if v.cfg.Lock() != nil {
		cure = "signalbox approve " + server + " shows them"
	}
	return fmt.Sprintf("definitions with text that may be addressed to models, or that names tools of other servers: %d; %s", n, cure)
}

// add adds one definition.
func (d *Definitions) add(p *pinsInUse, key pins.Key, listed json.RawMessage) {
	v := p.judge(key, listed)
	it := Definition{Server: key.Server, Kind: string(key.Kind), Name: key.Name, Face: string(key.Face), Listed: string(listed), State: string(v.State), Held: v.Held(), Sign: v.Sign}
	if digest, ok := p.cfg.Lock().Compared(key); ok && v.State != pins.Approved {
		read := p.text
		if key.Kind == pins.Page {
			read = p.readText // too large to be kept
		}
		text, _ := read(digest)
		it.Approved = string(text)
	}
	d.Items = append(d.Items, it)
}

// infoMember returns the name, the version or the like in the description that a peer gives of itself.
func infoMember(info []byte, member string) string {
	for name, value := range jsonscan.Members(info) {
		if name == member {
			text, _ := jsonscan.DecodeText(value)
			return text
		}
	}
	return ""
}

// noteChangedDefinitions logs the definitions that differ from those of the lists before, of servers
// that are not in the lock file: for the others the catalog has problems.
func (g *Gateway) noteChangedDefinitions(v *view, before, after *backend.Offer, name string) {
	if before == after || !before.Known() || !after.Known() || v.pins == nil || slices.Contains(v.cfg.Lock().Servers(), name) {
		return
	}
	for k := range pinKinds {
		old, next := before.Lists[k].Items, after.Lists[k].Items
		if len(old) > 0 && len(next) > 0 && &old[0] == &next[0] {
			continue // nothing was fetched
		}
		known := make(map[pins.Key]json.RawMessage, len(old))
		for _, item := range old {
			if key, ok := pinKey(name, k, item); ok {
				known[key] = item
			}
		}
		for _, item := range next {
			key, ok := pinKey(name, k, item)
			if was := known[key]; ok && was != nil && v.pins.digests.Of(was) != v.pins.digests.Of(item) {
				g.changedDefinitions.add(key, was, item)
				g.log.Warn("definition changed", slog.String("backend", name), slog.String("kind", string(key.Kind)), slog.String("name", key.Name),
					slog.String("cure", "signalbox why shows the difference; with signalbox lock such a change waits for your approval"))
			}
		}
	}
}

// maxChangedDefinitions bounds the changes that are kept.
const maxChangedDefinitions = 200

// changedDefinitions are the latest changes of definitions, for signalbox why. The zero value is ready for use.
type changedDefinitions struct {
	mu    sync.Mutex
	byKey map[pins.Key][]pins.Difference
	order []pins.Key
}

func (c *changedDefinitions) add(key pins.Key, before, after []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = make(map[pins.Key][]pins.Difference)
	}
	if _, ok := c.byKey[key]; !ok {
		if c.order = append(c.order, key); len(c.order) > maxChangedDefinitions {
			delete(c.byKey, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.byKey[key] = pins.Diff(before, after)
}

func (c *changedDefinitions) of(key pins.Key) []pins.Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byKey[key]
}
