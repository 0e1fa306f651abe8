// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import "strings"

// The schemes of URIs that are names: those of apps (io.modelcontextprotocol/ui) and of skills
// (io.modelcontextprotocol/skills). Such a URI means something only at the server that serves it.
const (
	schemeUI    = "ui:"
	schemeSkill = "skill:"
)

const authority = "//" // what a hierarchical URI has after the scheme (RFC 3986, section 3)

// IsName reports whether a URI or a URI template has the scheme ui or skill, in any letter case.
func IsName(uri string) bool { return schemeLen(uri) > 0 }

// schemeLen returns the length of the scheme of a name with its colon, or 0.
func schemeLen(uri string) int {
	for _, scheme := range [...]string{schemeUI, schemeSkill} {
		if hasScheme(uri, scheme) {
			return len(scheme)
		}
	}
	return 0
}

func hasScheme(uri, scheme string) bool {
	return len(uri) >= len(scheme) && strings.EqualFold(uri[:len(scheme)], scheme)
}

// OuterURI returns the URI under which clients know a resource of a backend, by the backend's
// label and its own URI or URI template: ui://page is ui://LABEL/page. An empty label, and a URI
// that is no name, leave it as it is. A label has no slash.
//
// Different labels, and different URIs of one label, have different results.
func OuterURI(label, uri string) string {
	at := schemeLen(uri)
	if at == 0 || label == "" {
		return uri
	}
	if strings.HasPrefix(uri[at:], authority) {
		at += len(authority)
	}
	return uri[:at] + label + "/" + uri[at:]
}

// InnerURI is the reverse of OuterURI. It reports false for a URI that OuterURI returns for no
// label. That it reports true does not mean that there is a backend with the label.
func InnerURI(uri string) (label, inner string, ok bool) {
	at := schemeLen(uri)
	if at == 0 {
		return "", "", false
	}
	whole := strings.HasPrefix(uri[at:], authority)
	if whole {
		at += len(authority)
	}
	label, rest, found := strings.Cut(uri[at:], "/")
	// Without the second condition a resource would have two URIs, and a rule could miss one.
	if !found || label == "" || !whole && strings.HasPrefix(rest, authority) {
		return "", "", false
	}
	return label, uri[:at] + rest, true
}
