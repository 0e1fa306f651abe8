// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// skillServer is a server with skills (SEP-2640): directories of files, by their URIs.
type skillServer struct {
	directories bool   // it reads directories
	hidden      string // the skill that is in no list
	plain       bool   // it does not have the extension

	declared *[]string // of the requests for the list, the capabilities of the client

	mu    sync.Mutex
	files map[string]string
	extra string // a member of each entry
	asked []string
}

// newSkillServer returns a server with skills, by their paths. Each has two files.
func newSkillServer(name string, paths ...string) *skillServer {
	s := &skillServer{directories: true, files: make(map[string]string)}
	for _, path := range paths {
		s.add(path, name)
	}
	return s
}

// add adds or changes a skill, with a scheme other than skill if path has one.
func (s *skillServer) add(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root := path
	if !strings.Contains(path, "://") {
		root = "skill://" + path
	}
	s.files[root+"/SKILL.md"] = "---\nname: " + lastSegment(path) + "\ndescription: Of " + text + "\n---\n\nRead templates/a.md.\n"
	s.files[root+"/templates/a.md"] = "A template of " + text + ".\n"
}

func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// entry returns the entry of a skill.
func (s *skillServer) entry(uri string) string {
	root := strings.TrimSuffix(uri, "/SKILL.md")
	var files []string
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		if text := s.files[file]; strings.HasPrefix(file, root+"/") {
			files = append(files, fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, file, sha256.Sum256([]byte(text)), len(text)))
		}
	}
	_, about, _ := strings.Cut(s.files[uri], "description: ")
	about, _, _ = strings.Cut(about, "\n")
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":%q,"metadata":{"uri":%[1]q}}%[4]s,"resources":[%[5]s]}`,
		uri, lastSegment(root), about, s.extra, strings.Join(files, ","))
}

func (s *skillServer) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uri, _ := req.Params.Text(mcp.FieldURI)
	if req.Method == "skills/list" && s.declared != nil {
		*s.declared = append(*s.declared, string(req.Client.Capabilities))
	}
	if s.plain && req.Method == "server/discover" {
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
	}
	s.asked = append(s.asked, strings.TrimSuffix(req.Method+" "+uri, " "))
	switch req.Method {
	case "server/discover":
		return mcp.NewResult(fmt.Appendf(nil, `{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{},"tools":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":%t}}}}`, s.directories))
	case "tools/list":
		return mcp.NewResult([]byte(`{"tools":[{"name":"cut","inputSchema":{"type":"object"}}]}`))
	case "resources/list":
		return mcp.NewResult([]byte(`{"resources":[]}`)) // skills need not be in it
	case "skills/list":
		return s.list(req)
	case "skills/get":
		if _, ok := s.files[uri]; ok && strings.HasSuffix(uri, "/SKILL.md") {
			return mcp.NewResult([]byte(`{"skill":` + s.entry(uri) + `}`))
		}
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no skill")
	case "resources/read":
		if text, ok := s.files[uri]; ok {
			return mcp.NewResult(fmt.Appendf(nil, `{"contents":[{"uri":%q,"text":%s}]}`, uri, jsonscan.AppendString(nil, text)))
		}
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no file")
	case "resources/directory/read":
		return s.readDirectory(uri)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
}

// list returns one skill on each page.
func (s *skillServer) list(req *mcp.Request) (*mcp.Result, error) {
	var uris []string
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasSuffix(uri, "/SKILL.md") && uri != s.hidden {
			uris = append(uris, uri)
		}
	}
	at := 0
	if cursor, ok := req.Params.Text(mcp.FieldCursor); ok {
		at, _ = strconv.Atoi(cursor)
	}
	if at >= len(uris) {
		return mcp.NewResult([]byte(`{"skills":[],"ttlMs":60000,"cacheScope":"public"}`))
	}
	next := ""
	if at+1 < len(uris) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, at+1)
	}
	return mcp.NewResult([]byte(`{"skills":[` + s.entry(uris[at]) + `],"ttlMs":60000,"cacheScope":"public"` + next + `}`))
}

func (s *skillServer) readDirectory(uri string) (*mcp.Result, error) {
	if !s.directories {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no directories")
	}
	children := make(map[string]string)
	for file := range s.files {
		rest, below := strings.CutPrefix(file, uri+"/")
		if !below {
			continue
		}
		name, _, isDirectory := strings.Cut(rest, "/")
		children[name] = "text/markdown"
		if isDirectory {
			children[name] = "inode/directory"
		}
	}
	if len(children) == 0 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no directory")
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(children)) {
		all = append(all, fmt.Sprintf(`{"uri":%q,"name":%q,"mimeType":%q}`, uri+"/"+name, name, children[name]))
	}
	return mcp.NewResult([]byte(`{"resources":[` + strings.Join(all, ",") + `]}`))
}

// set changes the server.
func (s *skillServer) set(change func(*skillServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// requests returns the requests for skills and files since the last call.
func (s *skillServer) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, one := range s.asked {
		if !strings.HasSuffix(one, "/list") && one != "server/discover" && one != "subscriptions/listen" {
			all = append(all, one)
		}
	}
	s.asked = nil
	return strings.Join(all, ", ")
}

// skillSite is a gateway in front of servers with skills.
type skillSite struct {
	*gatewaytest.Gateway

	servers map[string]*skillServer
}

func withSkills(t *testing.T, era string, servers map[string]*skillServer, change func(*config.Config), f func(*skillSite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &skillSite{servers: servers}
		backends := make(gatewaytest.Backends)
		for name, h := range servers {
			edge := server.New(h, server.Config{AllowedHosts: []string{"*"}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			t.Cleanup(func() { edge.Close() })
			backends[name] = edge
		}
		s.Gateway = backends.Open(t, func(cfg *config.Config) {
			for i := range cfg.Servers {
				cfg.Servers[i].Era = era
			}
			if change != nil {
				change(cfg)
			}
		})
		f(s)
	})
}

// expire lets the lists expire, and waits for the next ones.
func (s *skillSite) expire() {
	time.Sleep(2 * time.Minute)
	s.PostModern("1", "tools/list", "", "")
	synctest.Wait()
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// eachSkillPeer calls f for each pair of eras, which what names.
func eachSkillPeer(t *testing.T, servers func() map[string]*skillServer, change func(*config.Config), f func(what string, s *skillSite, c peer)) {
	t.Helper()
	for _, behind := range []string{"legacy", "modern"} {
		withSkills(t, behind, servers(), change, func(s *skillSite) {
			for era, c := range map[string]peer{"modern": {s.Gateway, nil}, "session": {s.Gateway, s.Legacy()}} {
				f(era+" to "+behind, s, c)
			}
		})
	}
}

// listedSkill is an entry of skills/list.
type listedSkill struct {
	URI         string
	Frontmatter struct{ Name, Description string }
	Resources   []struct {
		URI, Digest string
		Size        int
	}
}

// skills returns the listed skills.
func (p peer) skills() []listedSkill {
	p.T.Helper()
	var res struct {
		Result struct{ Skills []listedSkill }
	}
	body := p.send("skills/list", "")
	if err := json.Unmarshal([]byte(body), &res); err != nil {
		p.T.Fatalf("%v: %s", err, body)
	}
	return res.Result.Skills
}

// text returns the text of a resource.
func (p peer) text(uri string) string {
	p.T.Helper()
	var res struct {
		Result struct{ Contents []struct{ URI, Text string } }
	}
	body := p.send("resources/read", fmt.Sprintf(`"uri":%q`, uri))
	if err := json.Unmarshal([]byte(body), &res); err != nil || len(res.Result.Contents) != 1 || res.Result.Contents[0].URI != uri {
		p.T.Errorf("%s: %v: %s", uri, err, body)
		return ""
	}
	return res.Result.Contents[0].Text
}

func twoShelves() map[string]*skillServer {
	return map[string]*skillServer{"a": newSkillServer("a", "tools/knots", "wood"), "b": newSkillServer("b", "tools/knots")}
}

// Two servers have a skill under one path: both are listed, each file is read from its server, and is
// what the digest and the size in the entry are of (row 4).
func TestSkillsOfTwoServers(t *testing.T) {
	eachSkillPeer(t, twoShelves, nil, func(what string, s *skillSite, c peer) {
		var uris []string
		for _, skill := range c.skills() {
			uris = append(uris, skill.URI)
			owner := strings.Split(skill.URI, "/")[2]
			if skill.Frontmatter.Description != "Of "+owner {
				s.T.Errorf("%s: %s is of %q", what, skill.URI, skill.Frontmatter.Description)
			}
			if len(skill.Resources) != 2 || skill.Resources[0].URI != skill.URI {
				s.T.Errorf("%s: files %v", what, skill.Resources)
			}
			for _, file := range skill.Resources {
				text := c.text(file.URI)
				if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))); got != file.Digest || len(text) != file.Size || !strings.Contains(text, owner) {
					s.T.Errorf("%s: %s is %q, and its entry %v", what, file.URI, text, file)
				}
			}
		}
		if got, want := strings.Join(uris, " "), "skill://a/tools/knots/SKILL.md skill://a/wood/SKILL.md skill://b/tools/knots/SKILL.md"; got != want {
			s.T.Errorf("%s: listed %s, want %s", what, got, want)
		}
		for _, uri := range uris {
			wantIn(s.T, what, c.send("skills/get", fmt.Sprintf(`"uri":%q`, uri)), `{"skill":{"uri":"`+uri+`"`, `"resources":[{"uri":"`+uri+`"`,
				`"metadata":{"uri":"skill://`+strings.SplitN(uri, "/", 4)[3]+`"}`) // which is text
		}
		if c.sess == nil { // as the modern era requires
			wantIn(s.T, what, c.send("skills/get", `"uri":"skill://a/wood/SKILL.md"`), `"ttlMs":`, `"cacheScope":"private"`)
		}
		for _, name := range []string{"a", "b"} {
			wantIn(s.T, what+" asked", s.servers[name].requests(), "skills/get skill://tools/knots/SKILL.md", "resources/read skill://tools/knots/templates/a.md", "!skill://a", "!skill://b")
		}
	})
}

// The gateway declares what some backend declares, to clients of each revision. Without one the methods
// are unknown.
func TestSkillsAreDeclared(t *testing.T) {
	without := func() *skillServer {
		s := newSkillServer("a", "knots")
		s.directories = false
		return s
	}
	for _, tt := range []struct {
		servers func() map[string]*skillServer
		want    string
	}{
		{func() map[string]*skillServer { return map[string]*skillServer{"a": without()} }, `"io.modelcontextprotocol/skills":{}`},
		{func() map[string]*skillServer {
			return map[string]*skillServer{"a": without(), "b": newSkillServer("b")}
		}, `"io.modelcontextprotocol/skills":{"directoryRead":true}`},
	} {
		eachSkillPeer(t, tt.servers, nil, func(what string, s *skillSite, c peer) {
			if c.sess == nil {
				wantIn(s.T, what, c.send("server/discover", ""), tt.want)
			}
			for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
				hello := `{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
				wantIn(s.T, what+" "+version, s.Post(gatewaytest.LegacyRequest("1", "initialize", hello)).Body, tt.want, "without the prefix")
			}
		})
	}
	ofNone := func(cfg *config.Config) { cfg.Profiles = []config.Profile{{Name: "none", Servers: []string{"none"}}} }
	servers := func() map[string]*skillServer {
		return map[string]*skillServer{"a": newSkillServer("a", "knots"), "none": {plain: true}}
	}
	eachSkillPeer(t, servers, ofNone, func(what string, s *skillSite, c peer) {
		at := s.At("none")
		none := peer{at, nil}
		if c.sess != nil {
			none.sess = at.Legacy()
		}
		for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
			wantIn(s.T, what+" without skills", none.send(method, `"uri":"skill://a/knots/SKILL.md"`), `-32601`)
		}
		if c.sess == nil {
			wantIn(s.T, what+" without skills", none.send("server/discover", ""), "!skills")
		}
	})
}

// The list is requested by a client with the extension, if the capabilities belong to a request.
func TestSkillsAreRequested(t *testing.T) {
	var declared []string
	a := newSkillServer("a", "knots")
	a.declared = &declared
	withSkills(t, "modern", map[string]*skillServer{"a": a}, nil, func(s *skillSite) {
		if len(declared) != 1 || !strings.Contains(declared[0], `"io.modelcontextprotocol/skills":{}`) || !strings.Contains(declared[0], `"roots":{`) {
			s.T.Errorf("declared %q", declared)
		}
	})
}

// A skill that is in no list can be got by its URI, also as its server writes it. The answer for one that
// does not exist is that of the specification.
func TestSkillThatIsNotListed(t *testing.T) {
	servers := func() map[string]*skillServer {
		all := twoShelves()
		all["b"].add("rare", "b")
		all["b"].hidden = "skill://rare/SKILL.md"
		return all
	}
	eachSkillPeer(t, servers, nil, func(what string, s *skillSite, c peer) {
		wantIn(s.T, what, c.send("skills/list", ""), "!rare")
		get := func(uri string) string { return c.send("skills/get", fmt.Sprintf(`"uri":%q`, uri)) }
		wantIn(s.T, what, get("skill://b/rare/SKILL.md"), `{"skill":{"uri":"skill://b/rare/SKILL.md"`, `{"uri":"skill://b/rare/templates/a.md"`)
		wantIn(s.T, what+" as its server writes it", get("skill://wood/SKILL.md"), `{"skill":{"uri":"skill://wood/SKILL.md"`, `{"uri":"skill://wood/templates/a.md"`)
		if got := c.text("skill://wood/templates/a.md"); got != "A template of a.\n" {
			s.T.Errorf("%s: read %q", what, got)
		}
		s.servers["a"].requests()
		s.servers["b"].requests()
		for uri, want := range map[string]string{
			"skill://a/rare/SKILL.md":      `-32602`, // of its server
			"skill://b/knots":              `-32602`,
			"skill://c/knots/SKILL.md":     `-32602`,
			"skill://tools/knots/SKILL.md": `-32602`, // both have it
			"file:///etc/passwd":           `-32602`,
			"":                             `-32602`,
		} {
			wantIn(s.T, what+" "+uri, get(uri), want, "!result")
		}
		if got := s.servers["b"].requests(); got != "skills/get skill://knots" {
			s.T.Errorf("%s: b was asked for %s", what, got)
		}
		wantIn(s.T, what, c.send("skills/get", `"uri":7`), `-32602`)
	})
}

// A directory is read at its server, if that reads directories.
func TestSkillDirectories(t *testing.T) {
	servers := func() map[string]*skillServer {
		all := twoShelves()
		all["b"].directories = false
		return all
	}
	eachSkillPeer(t, servers, nil, func(what string, s *skillSite, c peer) {
		read := func(uri string) string { return c.send("resources/directory/read", fmt.Sprintf(`"uri":%q`, uri)) }
		wantIn(s.T, what, read("skill://a/tools/knots"),
			`"resources":[{"uri":"skill://a/tools/knots/SKILL.md","name":"SKILL.md","mimeType":"text/markdown"},{"uri":"skill://a/tools/knots/templates","name":"templates","mimeType":"inode/directory"}]`)
		wantIn(s.T, what, read("skill://a/tools/knots/templates"), `"uri":"skill://a/tools/knots/templates/a.md"`)
		for _, uri := range []string{"skill://a/tools/knots/SKILL.md", "skill://a/none"} {
			wantIn(s.T, what, read(uri), `-32602`)
		}
		s.servers["b"].requests()
		for _, uri := range []string{"skill://b/tools/knots", "skill://c/tools/knots", "file:///tmp"} {
			wantIn(s.T, what, read(uri), `-32602`, `not a directory resource: \"`+uri+`\"`)
		}
		if got := s.servers["b"].requests(); got != "" {
			s.T.Errorf("%s: b was asked for %s", what, got)
		}
	})
}

// A skill that the policy hides is in no list, and does not exist. Of a directory the client gets what it
// may read. The record names the methods.
func TestPolicyAndSkills(t *testing.T) {
	shelf := newSkillServer("shelf", "tools/knots", "tools/secret", "rare")
	shelf.hidden = "skill://rare/SKILL.md"
	record := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := config.Config{Audit: config.Audit{File: record}, Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
		{Name: "no-secrets", Deny: `!("boss" in principal.claims.groups)`, On: []string{"skill://shelf/tools/secret*", "skill://shelf/rare/*"}},
		{Name: "no-entries", Deny: `request.method == "skills/get" && principal.name == "eve"`, On: []string{"skill:*"}},
	}}}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "shelf", Handler: shelf}}})
	ann, boss, eve := person("ann", ""), person("bob", "boss"), person("eve", "")
	ask := func(who *mcp.Identity, method, params string) string {
		return answerTo(t, g, requestOf(t, who, method, params))
	}

	wantIn(t, "ann lists", ask(ann, "skills/list", `{}`), "skill://shelf/tools/knots/SKILL.md", "!secret", "!rare", `"cacheScope":"private"`)
	wantIn(t, "the boss lists", ask(boss, "skills/list", `{}`), "skill://shelf/tools/knots/SKILL.md", "skill://shelf/tools/secret/SKILL.md")
	shelf.requests()
	none := ask(ann, "skills/get", `{"uri":"skill://shelf/tools/nothing/SKILL.md"}`)
	wantIn(t, "a skill that does not exist", none, "-32602")
	if got := shelf.requests(); got != "skills/get skill://tools/nothing/SKILL.md" {
		t.Errorf("asked for %s", got)
	}
	for _, uri := range []string{"skill://shelf/tools/secret/SKILL.md", "skill://shelf/tools/%73ecret/SKILL.md", "skill://shelf/rare/SKILL.md", "skill://rare/SKILL.md", "skill://tools/secret/SKILL.md"} {
		wantIn(t, uri, ask(ann, "skills/get", fmt.Sprintf(`{"uri":%q}`, uri)), fmt.Sprintf("-32602 unknown skill: %q", uri))
	}
	wantIn(t, "a hidden directory", ask(ann, "resources/directory/read", `{"uri":"skill://shelf/tools/secret"}`), `-32602 not a directory resource`)
	if got := shelf.requests(); got != "" {
		t.Errorf("asked for %s", got)
	}
	wantIn(t, "the boss gets it", ask(boss, "skills/get", `{"uri":"skill://shelf/rare/SKILL.md"}`), `"skill":{"uri":"skill://shelf/rare/SKILL.md"`)
	wantIn(t, "a directory", ask(ann, "resources/directory/read", `{"uri":"skill://shelf/tools"}`), `{"resources":[{"uri":"skill://shelf/tools/knots",`, "!secret")
	wantIn(t, "a directory of the boss", ask(boss, "resources/directory/read", `{"uri":"skill://shelf/tools"}`), `"skill://shelf/tools/knots"`, `"skill://shelf/tools/secret"`)
	wantIn(t, "a rule about the method", ask(eve, "skills/get", `{"uri":"skill://shelf/tools/knots/SKILL.md"}`), "policy no-entries does not allow this skill")
	wantIn(t, "a rule about another method", ask(eve, "resources/read", `{"uri":"skill://shelf/tools/knots/SKILL.md"}`), "Read templates")

	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	wantIn(t, "the record", readFile(t, record), `"method":"skills/get"`, `"method":"resources/directory/read"`, `"detail":"skill \"skill://shelf/tools/secret/SKILL.md\""`)
}

// Of several servers with a skill under one URI of another scheme, the first has it. The others' entries
// are problems.
func TestSharedSkills(t *testing.T) {
	servers := func() map[string]*skillServer {
		return map[string]*skillServer{"a": newSkillServer("a", "git://x/knots"), "b": newSkillServer("b", "git://x/knots", "git://x/wood", "knots")}
	}
	eachSkillPeer(t, servers, nil, func(what string, s *skillSite, c peer) {
		var got []string
		for _, skill := range c.skills() {
			got = append(got, skill.URI+" "+skill.Frontmatter.Description)
		}
		if want := []string{"git://x/knots/SKILL.md Of a", "git://x/wood/SKILL.md Of b", "skill://b/knots/SKILL.md Of b"}; !slices.Equal(got, want) {
			s.T.Errorf("%s: %q, want %q", what, got, want)
		}
		wantIn(s.T, what, c.send("skills/get", `"uri":"git://x/knots/SKILL.md"`), "Of a")
		// Its files and directories, which no list of resources has, are of the same server.
		for uri, want := range map[string]string{"git://x/knots/templates/a.md": "A template of a.\n", "git://x/wood/templates/a.md": "A template of b.\n"} {
			if got := c.text(uri); got != want {
				s.T.Errorf("%s: %s is %q", what, uri, got)
			}
		}
		for _, uri := range []string{"git://x/knots", "git://x/wood"} {
			wantIn(s.T, what, c.send("resources/directory/read", fmt.Sprintf(`"uri":%q`, uri)), `"uri":"`+uri+`/templates"`)
		}
		wantIn(s.T, what, c.send("resources/read", `"uri":"git://x/knots/none"`), "unknown resource")
		wantIn(s.T, what, strings.Join(s.G.Status().Problems, "\n"), `backend "b": skill "git://x/knots/SKILL.md": left out: backend "a" offers skill "git://x/knots/SKILL.md" first [SB_SKILL_SHARED]`)
	})
}

// Without prefixes two skills may have one URI. That of the first is listed, and all of it is of its server.
func TestSkillsWithoutPrefixes(t *testing.T) {
	bare := func(cfg *config.Config) {
		for i := range cfg.Servers {
			cfg.Servers[i].Prefix = new(string)
		}
	}
	eachSkillPeer(t, twoShelves, bare, func(what string, s *skillSite, c peer) {
		var got []string
		for _, skill := range c.skills() {
			got = append(got, skill.URI+" "+skill.Frontmatter.Description)
			for _, file := range skill.Resources {
				if text := c.text(file.URI); !strings.Contains(text, "f a") {
					s.T.Errorf("%s: %s is %q", what, file.URI, text)
				}
			}
		}
		if want := []string{"skill://tools/knots/SKILL.md Of a", "skill://wood/SKILL.md Of a"}; !slices.Equal(got, want) {
			s.T.Errorf("%s: %q, want %q", what, got, want)
		}
		wantIn(s.T, what, c.send("resources/directory/read", `"uri":"skill://tools/knots/templates"`), `"uri":"skill://tools/knots/templates/a.md"`)
		wantIn(s.T, what, c.send("skills/get", `"uri":"skill://tools/knots/SKILL.md"`), "Of a")
		if got := s.servers["b"].requests(); got != "" {
			s.T.Errorf("%s: b was asked for %s", what, got)
		}
	})
}

// A skill that is not approved, or has changed, is neither listed nor got, whichever entry its server
// sends.
func TestPinnedSkills(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		approved := newSkillServer("a", "knots", "wood", "rare")
		approved.hidden = "skill://rare/SKILL.md"
		file := filepath.Join(t.TempDir(), "signalbox.yaml")
		l, d := pins.NewLock(), pins.NewDigester(nil)
		l.SetServer("a", pins.Server{Name: "a", Version: "1"})
		approve := func(kind pins.Kind, name, text string) {
			l.Approve(pins.Key{Server: "a", Kind: kind, Name: name}, d.Of([]byte(text)))
			writeText(t, config.TextFile(file, d.Of([]byte(text))), text)
		}
		for _, path := range []string{"knots", "wood", "rare"} {
			approve(pins.Skill, "skill://"+path+"/SKILL.md", approved.entry("skill://"+path+"/SKILL.md"))
		}
		approve(pins.Tool, "cut", `{"name":"cut","inputSchema":{"type":"object"}}`)
		writeText(t, config.LockFile(file), string(l.Format()))
		writeText(t, file, "mcpServers: {a: {url: \"http://a/mcp\"}}\n")
		locked, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		servers := map[string]*skillServer{"a": approved}
		withSkills(t, era, servers, func(cfg *config.Config) {
			servers := cfg.Servers
			*cfg = *locked
			cfg.Servers = servers
		}, func(s *skillSite) {
			for what, c := range map[string]peer{"modern": {s.Gateway, nil}, "session": {s.Gateway, s.Legacy()}} {
				get := func(path string) string { return c.send("skills/get", `"uri":"skill://a/`+path+`/SKILL.md"`) }
				what += " to " + era
				wantIn(s.T, what, c.send("skills/list", ""), "skill://a/knots/SKILL.md", "skill://a/wood/SKILL.md")
				for _, path := range []string{"knots", "rare"} {
					wantIn(s.T, what, get(path), `"skill":{"uri":"skill://a/`+path+`/SKILL.md"`)
				}
				// The entry is newer than the list, or in none.
				before := maps.Clone(s.servers["a"].files)
				for _, path := range []string{"knots", "rare", "new"} {
					s.servers["a"].add(path, "ATTACK")
					wantIn(s.T, what+" changed", get(path), "-32602", "unknown skill", "!ATTACK", "!sha256")
				}
				s.expire()
				wantIn(s.T, what+" changed", c.send("skills/list", ""), "skill://a/wood/SKILL.md", "!knots", "!new", "!ATTACK")
				wantIn(s.T, what+" changed", get("knots"), "unknown skill")
				for _, file := range []string{"skill://a/knots/SKILL.md", "skill://a/new/templates/a.md", "skill://knots/SKILL.md", "skill://a/kn%6fts/SKILL.md"} {
					wantIn(s.T, what+" changed", c.send("resources/read", fmt.Sprintf(`"uri":%q`, file)), "unknown resource", "!ATTACK")
				}
				wantIn(s.T, what+" changed", c.send("resources/directory/read", `"uri":"skill://a/knots"`), `"error"`, "!SKILL.md")
				wantIn(s.T, what+" approved", c.send("resources/read", `"uri":"skill://a/wood/SKILL.md"`), "Of a")
				wantIn(s.T, what, strings.Join(s.G.Status().Problems, "\n"), `skill "skill://knots/SKILL.md": left out: its definition has changed`, `skill "skill://new/SKILL.md": left out: it is not approved yet`)
				s.servers["a"].set(func(a *skillServer) { a.files, a.extra = before, `,"_meta":{"by":"ATTACK"}` })
				s.expire()
				wantIn(s.T, what+" with other text", c.send("skills/list", ""), "skill://a/knots/SKILL.md", "!ATTACK")
				wantIn(s.T, what+" with other text", get("knots"), `"skill":{"uri":"skill://a/knots/SKILL.md"`, `"skill://a/knots/templates/a.md"`, "!ATTACK")
				s.servers["a"].set(func(a *skillServer) { a.extra = "" })
				s.expire()
			}
		})
	}
}

// A skill with text that people do not see is held, also without a lock file.
func TestSkillWithHiddenText(t *testing.T) {
	servers := func() map[string]*skillServer {
		a := newSkillServer("a", "knots")
		a.add("sly", "you\u200b")
		return map[string]*skillServer{"a": a}
	}
	eachSkillPeer(t, servers, nil, func(what string, s *skillSite, c peer) {
		wantIn(s.T, what, c.send("skills/list", ""), "knots", "!sly")
		wantIn(s.T, what, c.send("skills/get", `"uri":"skill://a/sly/SKILL.md"`), "unknown skill")
	})
}

// A server may answer skills/get with anything.
func TestAnswerWithoutASkill(t *testing.T) {
	for answer, want := range map[string]string{
		`{}`:          "it has no skill",
		`{"skill":7}`: "it has no skill",
		`{"skill":{"uri":"skill://knots/SKILL.md"}}`:                                                                    "it has no frontmatter",
		`{"skill":{"uri":"skill://other/SKILL.md","frontmatter":{}}}`:                                                   "it is another skill",
		`{"skill":{"frontmatter":{}}}`:                                                                                  "it is another skill",
		`{"skill":{"uri":"skill://knots/SKILL.md","frontmatter":{},"uri":"skill://x"}}`:                                 "it has the member uri twice",
		`{"skill":{"uri":"skill://knots/SKILL.md","frontmatter":{},"resources":[{"uri":7}]}}`:                           "a file in its resources has no uri",
		`{"skill":{"uri":"skill://knots/SKILL.md","frontmatter":{},"resources":"dynamic","x":{"uri":"skill://knots"}}}`: "",
	} {
		shelf := newSkillServer("a", "knots")
		h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method == "skills/get" {
				return mcp.NewResult([]byte(answer))
			}
			return shelf.Serve(ctx, req, caller)
		})
		g := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: h}}})
		got := answerTo(t, g, requestOf(t, nil, "skills/get", `{"uri":"skill://a/knots/SKILL.md"}`))
		if want == "" {
			wantIn(t, answer, got, `{"skill":{"uri":"skill://a/knots/SKILL.md","frontmatter":{},"resources":"dynamic","x":{"uri":"skill://knots"}}}`)
			continue
		}
		wantIn(t, answer, got, want, "!result")
	}
}

// A profile has the skills of its servers. A list is bounded like others, and stays while its server is
// away.
func TestSkillsAsAList(t *testing.T) {
	change := func(cfg *config.Config) {
		cfg.Profiles = []config.Profile{{Name: "of-b", Servers: []string{"b"}}}
		cfg.Limits.ToolsPerBackend = 1
	}
	eachSkillPeer(t, twoShelves, change, func(what string, s *skillSite, c peer) {
		wantIn(s.T, what, c.send("skills/list", ""), "skill://a/tools/knots/SKILL.md", "skill://b/tools/knots/SKILL.md", "!wood")
		wantIn(s.T, what, strings.Join(s.G.Status().Problems, "\n"), "skills/list: only the first 1 items are kept (limits.toolsPerBackend)")
		at := s.At("of-b")
		part := peer{at, nil}
		if c.sess != nil {
			part.sess = at.Legacy()
		}
		wantIn(s.T, what, part.send("skills/list", ""), "skill://b/tools/knots/SKILL.md", "!skill://a")
		wantIn(s.T, what, part.send("skills/get", `"uri":"skill://a/tools/knots/SKILL.md"`), "unknown skill")
		wantIn(s.T, what, part.send("resources/directory/read", `"uri":"skill://a/tools/knots"`), "not a directory resource")
		if n := s.G.Status().Backends[0]; n.Skills != 1 || n.Offered.Skills != 1 {
			s.T.Errorf("%s: %d skills, %d offered", what, n.Skills, n.Offered.Skills)
		}
		e := s.G.Explain("skill://a/tools/knots/SKILL.md", "")
		if !e.Offered || len(e.Items) != 1 || e.Items[0].Kind != "skill" {
			s.T.Errorf("%s: explained %+v", what, e)
		}
	})
}
