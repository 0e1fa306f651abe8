// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// skills is a Handler with the extension for skills (SEP-2640), which package mux does not have: it has
// one skill. The files of that are resources of the Mux.
type skills struct {
	mcp.Handler

	name string
}

const (
	skillsExtension = "io.modelcontextprotocol/skills"
	skillAbout      = "Ties a knot"
	markdown        = "text/markdown"
	folder          = "inode/directory"
)

// root is the directory of the skill.
func (s skills) root() string { return "skill://" + s.name }

// skillFile is one file of the skill.
type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

type skillEntry struct {
	URI         string            `json:"uri"`
	Frontmatter map[string]string `json:"frontmatter"`
	Resources   []skillFile       `json:"resources"`
}

// texts returns the files, that with the instructions first.
func (s skills) texts() [][2]string {
	return [][2]string{
		{s.root() + "/SKILL.md", "---\nname: " + s.name + "\ndescription: " + skillAbout + "\n---\n\nChoose one of [the knots](knots).\n"},
		{s.root() + "/knots/bowline.md", "Make a loop.\n"},
		{s.root() + "/knots/hitch.md", "Take a turn.\n"},
	}
}

func (s skills) entry() skillEntry {
	e := skillEntry{URI: s.root() + "/SKILL.md", Frontmatter: map[string]string{"name": s.name, "description": skillAbout}}
	for _, file := range s.texts() {
		e.Resources = append(e.Resources, skillFile{file[0], fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(file[1]))), len(file[1])})
	}
	return e
}

// items returns the files as resources.
func (s skills) items() (all []mux.Item) {
	for i, file := range s.texts() {
		uri, text := file[0], file[1]
		r := mux.Resource{
			URI: uri, Name: uri[strings.LastIndexByte(uri, '/')+1:], MIMEType: markdown, Size: int64(len(text)), TTL: time.Hour,
			Read: hold(mux.TextContents(uri, markdown, text)),
		}
		if i == 0 {
			r.Name, r.Description = s.name, skillAbout
		}
		all = append(all, r)
	}
	return all
}

// Serve serves the methods of the extension, and adds it to the capabilities.
func (s skills) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	uri, _ := req.Params.Text(mcp.FieldURI)
	switch req.Method {
	case "server/discover":
		res, err := s.Handler.Serve(ctx, req, caller)
		if err != nil {
			return nil, err
		}
		return withSkills(res)
	case "skills/list":
		return encoded(map[string]any{"skills": []skillEntry{s.entry()}, "ttlMs": time.Hour.Milliseconds(), "cacheScope": "public"})
	case "skills/get":
		if uri != s.entry().URI {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown skill")
		}
		return encoded(map[string]any{"skill": s.entry(), "ttlMs": time.Hour.Milliseconds(), "cacheScope": "public"})
	case "resources/directory/read":
		return s.readDirectory(uri)
	default:
		return s.Handler.Serve(ctx, req, caller)
	}
}

// readDirectory lists the files and folders of a folder.
func (s skills) readDirectory(uri string) (*mcp.Result, error) {
	type child struct {
		URI      string `json:"uri"`
		Name     string `json:"name"`
		MIMEType string `json:"mimeType"`
	}
	var all []child
	for _, file := range s.texts() {
		below, ok := strings.CutPrefix(file[0], uri+"/")
		if !ok {
			continue
		}
		next := child{Name: below, MIMEType: markdown}
		if name, _, isFolder := strings.Cut(below, "/"); isFolder {
			next = child{Name: name, MIMEType: folder}
		}
		next.URI = uri + "/" + next.Name
		if len(all) == 0 || all[len(all)-1] != next {
			all = append(all, next)
		}
	}
	if all == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "not a directory resource")
	}
	return encoded(map[string]any{"resources": all})
}

// withSkills adds the extension to a result of server/discover.
func withSkills(res *mcp.Result) (*mcp.Result, error) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(res.Bytes(), &all); err != nil {
		return nil, err
	}
	var capabilities map[string]jsontext.Value
	if err := json.Unmarshal(all["capabilities"], &capabilities); err != nil {
		return nil, err
	}
	extensions := make(map[string]any)
	if raw := capabilities["extensions"]; raw != nil {
		if err := json.Unmarshal(raw, &extensions); err != nil {
			return nil, err
		}
	}
	extensions[skillsExtension] = map[string]bool{"directoryRead": true}
	for _, set := range []struct {
		in    map[string]jsontext.Value
		name  string
		value any
	}{{capabilities, "extensions", extensions}, {all, "capabilities", capabilities}} {
		raw, err := json.Marshal(set.value, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		set.in[set.name] = raw
	}
	return encoded(all)
}

func encoded(v any) (*mcp.Result, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}
