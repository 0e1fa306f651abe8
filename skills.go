// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file serves the methods of the extension for skills (SEP-2640), except for skills/list, which is
// a list like any other. They are for all clients, as the extension has no member for a client to
// declare, and the official suite declares none. Where no backend has skills they are unknown.

const (
	skillsGet     = "skills/get"
	readDirectory = "resources/directory/read"
)

// directory is the kind of resources/directory/read.
const directory = catalog.NumKinds + 1

// skill serves skills/get.
func (g *Gateway) skill(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by servedBy, res *mcp.Result, err error) {
	by, item, err := g.findSkillItem(ctx, req, lookup{kind: catalog.Skills})
	if err != nil {
		return by, nil, err
	}
	by.backend, res, err = g.forward(ctx, item, mcp.FieldURI, req, caller)
	if err == nil {
		res, err = item.skillResult(req, res)
	}
	return by, res, err
}

// directory serves resources/directory/read. Of the children it returns those that the client may read.
func (g *Gateway) directory(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by servedBy, res *mcp.Result, err error) {
	by, item, err := g.findSkillItem(ctx, req, lookup{kind: catalog.Resources, isDirectory: true})
	if err != nil {
		return by, nil, err
	}
	by.backend, res, err = g.forward(ctx, item, mcp.FieldURI, req, caller)
	if err != nil {
		return by, nil, err
	}
	of := viewerOf(req)
	res, err = withBytes(res, extension.OuterDirectory(item.labelFor(req), res.Bytes(), func(own string) bool { return item.mayRead(of, own) }))
	return by, res, err
}

// findSkillItem finds what a request names by its URI, and admits it.
func (g *Gateway) findSkillItem(ctx context.Context, req *mcp.Request, l lookup) (by servedBy, item admitted, err error) {
	uri, err := textOf(req, mcp.FieldURI)
	if err != nil {
		return by, item, err
	}
	by.name, l.name = stripURI(uri), uri
	f := g.find(ctx, req, l)
	req.Timeline.Mark(mcp.StageResolved)
	if !f.hasMethod(req.Method) {
		return by, item, errUnknownMethod(req.Method)
	}
	if f.entry == nil {
		return by, item, f.unknownURI(l)
	}
	if f.entry.Name != uri {
		by.name = nameInRecord(f.entry)
	}
	item, refused := g.admit(ctx, req, f)
	if refused != nil {
		by.verdict = refused.why
		return by, item, refused.err
	}
	by.verdict = item.why
	return by, item, g.charge(ctx, req, f.entry)
}

// hasMethod reports whether some backend has a method of the extension.
func (v *view) hasMethod(method string) bool {
	offer := v.catalog.Skills()
	if method == readDirectory {
		return offer.ReadsDirectories
	}
	return offer.Lists
}

// unknownURI returns the error for a URI that is of no skill, or of no directory. If it can only be that
// of a backend that was never reached, the error gives the reason.
func (v *view) unknownURI(l lookup) error {
	if label, _, ok := extension.InnerURI(l.name); ok {
		for i, b := range v.backends {
			if o := v.offered[i]; b.label() == label && !o.Known() && v.maySee(b, l.kind) {
				return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: b.Name(), Reason: o.Code, Message: "it has not been reached yet: " + b.unreachedReason(o)}
			}
		}
	}
	if l.isDirectory {
		return mcp.Errorf(mcp.CodeInvalidParams, "not a directory resource: %q", shorten(l.name))
	}
	return mcp.Errorf(mcp.CodeInvalidParams, "unknown skill: %q", shorten(l.name))
}

// labelFor is the label for the URIs in the answer to a request: none if the client has sent the URI as
// the backend writes it.
func (a admitted) labelFor(req *mcp.Request) string {
	if b, ok := a.backendOf(a.entry); ok && !isBare(req, a.entry) {
		return b.label()
	}
	return ""
}

// skillResult returns the result of skills/get for the client. What it has is judged like an item of a
// list, since it may be newer than that, or in none.
func (a admitted) skillResult(req *mcp.Request, res *mcp.Result) (*mcp.Result, error) {
	b, _ := a.backendOf(a.entry)
	entry, problem := extension.SkillOf(res.Bytes())
	own, _ := extension.SkillURI(entry)
	switch {
	case problem == "" && own != a.entry.Own:
		problem = "it is another skill"
	case problem == "":
		var held bool
		if entry, held = a.pinnedSkill(b, own, entry); held {
			return nil, a.unknownURI(lookup{kind: catalog.Skills, name: a.entry.Name})
		}
	}
	if problem != "" {
		return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Backend: a.entry.BackendName, Message: "its answer to " + skillsGet + " is not valid: " + problem}
	}
	return withBytes(res, extension.WithSkill(res.Bytes(), extension.OuterSkill(a.labelFor(req), entry)))
}

// pinnedSkill returns the entry of a skill that is offered in the place of one that a backend has sent.
func (a admitted) pinnedSkill(b *activeBackend, own string, entry []byte) (use []byte, held bool) {
	if b == nil || b.client == nil || a.pins == nil {
		return entry, false
	}
	v := a.pins.judge(pins.Key{Server: b.Name(), Kind: pins.Skill, Name: own}, entry)
	return v.Use, v.Held()
}

// mayRead reports whether a client may read what the item's backend has under a URI of its own.
func (a admitted) mayRead(of viewer, own string) bool {
	if a.policy == nil || a.policy.dryRun {
		return true
	}
	b, ok := a.backendOf(a.entry)
	if !ok {
		return false
	}
	f := lookup{kind: catalog.Resources, name: extension.OuterURI(b.label(), own)}.find(a.view)
	return f.entry != nil && f.entry.BackendName == b.Name() && f.decide(of, &mcp.Request{Method: "resources/read"}).Effect.IsAllowed()
}

// heldFilesOf returns the files and directories of the skills that are held, and of no other skill, by the server and
// the plain form of the URI. To clients they do not exist: without the entry nothing verifies them.
func (v *view) heldFilesOf() map[[2]string]bool {
	held, others := make(map[[2]string]bool), [][2]string(nil)
	for i, b := range v.backends {
		if b.isOwn(v.offered[i]) {
			continue
		}
		for _, skill := range v.offered[i].Lists[catalog.Skills].Items {
			isHeld := v.pins.judgeItem(b.Name(), catalog.Skills, skill).Held
			for _, uri := range extension.SkillURIs(skill) {
				if at := [2]string{b.Name(), glob.PlainURI(uri)}; isHeld {
					held[at] = true
				} else {
					others = append(others, at)
				}
			}
		}
	}
	for _, at := range others {
		delete(held, at)
	}
	return held
}

// holds reports whether an entry is that of a resource in heldFilesOf.
func (v *view) holds(e *catalog.Entry) bool {
	if v.heldFiles == nil || e.Kind != catalog.Resources {
		return false
	}
	held := v.heldFiles()
	return len(held) > 0 && held[[2]string{e.BackendName, glob.PlainURI(e.Own)}]
}
