// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// WithExtensions returns capabilities with the extensions of others, whether or not they are translated.
// Those that capabilities have already stay as they are. Tasks are always translated, and are not added.
// What is not an object counts as {}.
func WithExtensions(capabilities, others []byte) []byte {
	declared := make(map[string]bool)
	var all []byte
	add := func(object []byte, wanted func(name string) bool) {
		for name, value := range jsonscan.Members(object) {
			if !declared[name] && wanted(name) {
				declared[name] = true
				all = appendMember(all, name, value)
			}
		}
	}
	add(jsonscan.Member(capabilities, extension.Member), func(string) bool { return true })
	n := len(all)
	add(jsonscan.Member(others, extension.Member), func(name string) bool { return name != extension.Tasks })
	if len(all) == n {
		return capabilities
	}
	all = append(append([]byte{'{'}, all[1:]...), '}')
	rest := changeMembers(capabilities, func(name string, value []byte) []byte {
		if name == extension.Member {
			return nil
		}
		return value
	})
	return jsonscan.WithMember(rest, extension.Member, all)
}
