// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import "slices"

// Searcher is a client that does not put all tools before its model, but searches them itself.
type Searcher struct {
	ID   string // of the Client
	Info string // the name in its clientInfo, or "" if it is not known

	// AlwaysLoad is the member of _meta with which a tool is put before the model at once, or "".
	AlwaysLoad string

	Source Source
}

// searchers are the clients that are known to search tools themselves.
//
//nolint:gochecknoglobals // never changed
var searchers = []Searcher{
	{"claude-code", "claude-code", "anthropic/alwaysLoad", Source{"https://code.claude.com/docs/en/mcp#scale-with-mcp-tool-search", "2026-11-26"}},
	{"codex", "codex-mcp-client", "", Source{"https://github.com/openai/codex/issues/33609", "2026-11-26"}},
	{"copilot-cli", "", "", Source{"https://docs.github.com/en/copilot/concepts/agents/copilot-cli/tool-search", "2026-11-26"}},
	{"cursor", "cursor-vscode", "", Source{"https://cursor.com/blog/dynamic-context-discovery", "2026-11-26"}},
	{"vscode", "Visual Studio Code", "", Source{"https://code.visualstudio.com/blogs/2026/04/24/solving-mcp-tool-overload", "2026-11-26"}},
}

// SearcherNamed returns the client with a name in its clientInfo, if it searches tools itself. The name is
// a claim of the client: use it for the form of what is sent, and never for what may be used.
func SearcherNamed(info string) (Searcher, bool) {
	return searcher(func(s Searcher) bool { return s.Info == info && info != "" })
}

// SearchesTools reports whether the client with an ID searches tools itself.
func SearchesTools(id string) bool {
	_, ok := searcher(func(s Searcher) bool { return s.ID == id })
	return ok
}

func searcher(is func(Searcher) bool) (Searcher, bool) {
	i := slices.IndexFunc(searchers, is)
	if i < 0 {
		return Searcher{}, false
	}
	return searchers[i], true
}

// Named returns the IDs of the clients with a known name in clientInfo, sorted.
func Named() []string {
	var ids []string
	for _, s := range searchers {
		if s.Info != "" {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
