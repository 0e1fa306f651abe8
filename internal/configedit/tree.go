// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// node returns a value as the parser returns it, without positions.
func node(value any) configfile.Node {
	switch v := value.(type) {
	case string:
		return configfile.Node{Kind: configfile.Text, Text: v}
	case bool:
		return configfile.Node{Kind: configfile.Bool, Text: strconv.FormatBool(v)}
	case int:
		return configfile.Node{Kind: configfile.Integer, Text: strconv.Itoa(v)}
	case []string:
		return list(v)
	case []Entry:
		return list(v)
	case Entry:
		n := configfile.Node{Kind: configfile.Mapping}
		for _, field := range v {
			n.Members = append(n.Members, configfile.Member{Key: field.Key, Value: node(field.Value)})
		}
		return n
	default:
		panic(fmt.Sprintf("configedit: a value of type %T", value)) //nolint:forbidigo // the types are those that Entry documents
	}
}

func list[T any](items []T) configfile.Node {
	n := configfile.Node{Kind: configfile.List}
	for _, item := range items {
		n.Items = append(n.Items, node(item))
	}
	return n
}

// indexOf returns the index of the first member with a key, or -1.
func indexOf(n configfile.Node, key string) int {
	return slices.IndexFunc(n.Members, func(m configfile.Member) bool { return m.Key == key })
}

// with returns a tree in which the value at a path is another one, or is added at the end.
// Missing mappings on the path are added, too.
func with(n configfile.Node, path []string, value configfile.Node) configfile.Node {
	if len(path) == 0 {
		return value
	}
	n.Kind, n.Members = configfile.Mapping, slices.Clone(n.Members)
	i := indexOf(n, path[0])
	if i < 0 {
		i = len(n.Members)
		n.Members = append(n.Members, configfile.Member{Key: path[0]})
	}
	n.Members[i].Value = with(n.Members[i].Value, path[1:], value)
	return n
}

// without returns a tree without the member at a path.
func without(n configfile.Node, path []string) configfile.Node {
	return changed(n, path, func(members []configfile.Member, i int) []configfile.Member { return slices.Delete(members, i, i+1) })
}

// renamed returns a tree in which the member at a path has another key.
func renamed(n configfile.Node, path []string, key string) configfile.Node {
	return changed(n, path, func(members []configfile.Member, i int) []configfile.Member {
		members[i].Key = key
		return members
	})
}

func changed(n configfile.Node, path []string, change func(members []configfile.Member, i int) []configfile.Member) configfile.Node {
	n.Members = slices.Clone(n.Members)
	i := indexOf(n, path[0])
	if len(path) == 1 {
		n.Members = change(n.Members, i)
	} else {
		n.Members[i].Value = changed(n.Members[i].Value, path[1:], change)
	}
	return n
}

// equal reports whether two trees differ in positions only.
func equal(a, b configfile.Node) bool {
	return a.Kind == b.Kind && a.Text == b.Text && slices.EqualFunc(a.Items, b.Items, equal) &&
		slices.EqualFunc(a.Members, b.Members, func(a, b configfile.Member) bool {
			return a.Key == b.Key && equal(a.Value, b.Value)
		})
}

// get returns the value at a path.
func get(n configfile.Node, path []string) (configfile.Node, bool) {
	for _, key := range path {
		value, found := n.Member(key)
		if !found {
			return configfile.Node{}, false
		}
		n = value
	}
	return n, true
}
