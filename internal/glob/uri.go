// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"strconv"
	"strings"
)

// PlainURI returns a URI without what may be spelled in several ways (RFC 3986, section 6.2.2):
// scheme and host in lower case, no percent-encoding, no segments "." and "..", and no fragment.
// A path of the scheme file is that of a file, in which a backslash may separate segments and
// empty segments mean nothing. It is for judging a URI, and may be no valid one.
func PlainURI(uri string) string {
	plain, _ := plainURI(uri)
	return plain
}

// IsAmbiguous reports whether readers of a URI may differ in the resource: a segment ".." follows an
// empty one, which it removes by RFC 3986, section 5.2.4, and which is nothing for a file system, or
// it follows a "?" or "#", which some readers take for a part of the path.
func IsAmbiguous(uri string) bool {
	_, ambiguous := plainURI(uri)
	return ambiguous
}

func plainURI(uri string) (plain string, ambiguous bool) {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return uri, false
	}
	scheme = strings.ToLower(scheme)
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		host, rest = "//"+strings.ToLower(unescape(after[:end])), after[end:]
	}
	rest, query, fragment = unescape(rest), unescape(query), unescape(fragment)
	behind := query + "/#" + fragment + "/"
	if scheme == "file" {
		rest, behind = strings.ReplaceAll(rest, `\`, "/"), strings.ReplaceAll(behind, `\`, "/")
	}
	path, ambiguous := withoutDots(rest)
	if scheme == "file" {
		for strings.Contains(rest, "//") {
			rest = strings.ReplaceAll(rest, "//", "/")
		}
		path, _ = withoutDots(rest)
	}
	plain = scheme + ":" + host + path
	if hasQuery {
		plain += "?" + query
	}
	return plain, ambiguous || strings.Contains(behind, "/../")
}

// unescape decodes each percent-encoding. A percent sign that begins none stays.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				c = byte(n)
				i += 2
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// withoutDots removes the segments "." and ".." from a path (RFC 3986, section 5.2.4), and reports
// whether ".." has removed an empty segment.
func withoutDots(path string) (plain string, ambiguous bool) {
	if !strings.Contains(path, ".") {
		return path, false
	}
	segments := strings.Split(path, "/")
	var kept []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			if n := len(kept); n > 1 || n == 1 && kept[0] != "" {
				ambiguous = ambiguous || kept[n-1] == ""
				kept = kept[:n-1]
			}
		case s != ".":
			kept = append(kept, s)
			continue
		}
		if last { // a directory
			kept = append(kept, "")
		}
	}
	return strings.Join(kept, "/"), ambiguous
}
