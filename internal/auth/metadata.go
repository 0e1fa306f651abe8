// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

// metadata is the document about a protected resource (RFC 9728, section 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"`
}

// HasMetadata reports whether the Chain has metadata: if clients get tokens from issuers.
func (c *Chain) HasMetadata() bool { return len(c.servers) > 0 }

// IsMetadata reports whether a path is one of the metadata of a resource: that of the
// endpoint, of a profile, of the endpoint for older clients, or the form without the path of
// the endpoint. Profiles that do not exist have metadata, too, so that it does not reveal
// which ones exist.
func (c *Chain) IsMetadata(path string) bool {
	_, ok := c.described(path)
	return ok && c.HasMetadata()
}

// described returns the path of the resource that the metadata at a path describes.
func (c *Chain) described(path string) (string, bool) {
	suffix, ok := strings.CutPrefix(path, wellKnown)
	if !ok {
		return "", false
	}
	main := metadataPath(c.resource.path)
	if suffix == "" || suffix == main {
		return c.resource.path, true
	}
	for _, endpoint := range []string{main, SSEPath} {
		rest, ok := strings.CutPrefix(suffix, endpoint)
		if !ok || endpoint == main && rest == "" {
			continue
		}
		if rest == "" || isProfile(rest) {
			return suffix, true
		}
	}
	return "", false
}

// isProfile reports whether the rest of a path can be that of a profile.
func isProfile(rest string) bool {
	name, ok := strings.CutPrefix(rest, profilePath)
	valid := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' }
	return ok && name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool { return !valid(r) }) < 0
}

// ServeMetadata serves the metadata of the resources to everybody, at the paths of
// [Chain.IsMetadata]. Pages of all origins may read it, since their clients have to find the
// authorization server before they have a token.
func (c *Chain) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	path, ok := c.described(r.URL.Path)
	switch {
	case !ok || !c.HasMetadata():
		http.NotFound(w, r)
		return
	case r.Method == http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "7200")
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed, use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	doc := metadata{
		Resource: c.resource.public + path, Servers: c.servers, Scopes: c.scopes, Methods: []string{"header"}, Name: c.name,
	}
	body, err := json.Marshal(&doc)
	if err != nil {
		http.Error(w, "cannot encode the metadata", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, '\n')) // fails only if the client has left
}
