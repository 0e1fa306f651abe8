// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"strconv"
	"strings"
)

// PlainURI returns a URI without what may be spelled in several ways (RFC 3986, section 6.2.2):
// scheme and host in lower case, no percent-encoding, no segments "." and "..", and no fragment.
// It is for judging a URI, and may be no valid one.
func PlainURI(uri string) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return uri
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		host, rest = "//"+strings.ToLower(unescape(after[:end])), after[end:]
	}
	plain := strings.ToLower(scheme) + ":" + host + withoutDots(unescape(rest))
	if hasQuery {
		plain += "?" + unescape(query)
	}
	return plain
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

// withoutDots removes the segments "." and ".." from a path (RFC 3986, section 5.2.4).
func withoutDots(path string) string {
	if !strings.Contains(path, ".") {
		return path
	}
	segments := strings.Split(path, "/")
	var kept []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			if len(kept) > 1 || len(kept) == 1 && kept[0] != "" {
				kept = kept[:len(kept)-1]
			}
		case s != ".":
			kept = append(kept, s)
			continue
		}
		if last { // a directory
			kept = append(kept, "")
		}
	}
	return strings.Join(kept, "/")
}
