// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// Literals returns the texts of a file that may be credentials: the values of variables and
// headers, what has the name or the form of a secret, and the credentials in addresses. It is
// for hiding them, and returns rather too much. A file that cannot be read has none.
func Literals(name string, data []byte) []string {
	root, err := parse(data, syntaxOf(name, data))
	if err != nil {
		return nil
	}
	var found []string
	addLiterals(&found, "", root, false)
	return found
}

// addLiterals adds the texts below a node. values is whether they are those of variables or
// headers.
func addLiterals(found *[]string, key string, n configfile.Node, values bool) {
	switch n.Kind {
	case configfile.Mapping:
		for _, m := range n.Members {
			switch m.Key {
			case "env", "envs", "environment", "headers", "http_headers":
				addLiterals(found, m.Key, m.Value, true)
			default:
				addLiterals(found, m.Key, m.Value, values)
			}
		}
	case configfile.List:
		args := make([]string, len(n.Items))
		for i, item := range n.Items {
			args[i] = item.Text
			addLiterals(found, key, item, values)
		}
		for i, arg := range args {
			if arg != "" && isSecretArg(args, i) {
				_, value, _ := strings.Cut(arg, "=")
				*found = append(*found, arg, value)
			}
		}
	default:
		if strings.Contains(n.Text, "${") {
			return
		}
		if values || redact.IsSecretName(key) || isSecret(key, n.Text) {
			_, credentials, _ := strings.Cut(n.Text, " ") // after the scheme of a header
			*found = append(*found, n.Text, credentials)
		}
		if u, err := url.Parse(n.Text); err == nil && u.Scheme != "" {
			if password, ok := u.User.Password(); ok {
				*found = append(*found, password)
			}
			for _, values := range u.Query() {
				*found = append(*found, values...)
			}
		}
	}
}
