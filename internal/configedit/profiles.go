// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// The keys of profiles that have names in them.
const (
	profilesKey = "profiles"
	namesKey    = "servers"
)

// eachList calls change for the lists of profiles with an item for which affected returns
// true, and adds its edits to what is changed in the file: edits that lead to want. change
// returns the items of the list afterwards, and the edits for that.
func (d *document) eachList(
	edits []edit, want configfile.Node, affected func(key string, item configfile.Node) bool,
	change func(profile string, m member) ([]configfile.Node, []edit, error),
) ([]edit, configfile.Node, error) {
	isAffected := func(m configfile.Member) bool {
		return slices.ContainsFunc(m.Value.Items, func(item configfile.Node) bool { return affected(m.Key, item) })
	}
	node, _ := d.root.Member(profilesKey)
	if !slices.ContainsFunc(node.Members, func(m configfile.Member) bool { return slices.ContainsFunc(m.Value.Members, isAffected) }) {
		return edits, want, nil // whatever its form
	}
	root, err := d.rootMapping()
	if err != nil {
		return nil, want, err
	}
	parent, _ := root.member(profilesKey)
	profiles, err := root.below(parent)
	if err != nil {
		return nil, want, err
	}
	for _, one := range profiles.members {
		if !slices.ContainsFunc(one.Value.Members, isAffected) {
			continue
		}
		profile, err := profiles.below(one)
		if err != nil {
			return nil, want, err
		}
		for _, m := range profile.members {
			if !isAffected(m.Member) {
				continue
			}
			list := m.Value
			var more []edit
			if list.Items, more, err = change(one.Key, m); err != nil {
				return nil, want, err
			}
			edits = append(edits, more...)
			want = with(want, []string{profilesKey, one.Key, m.Key}, list)
		}
	}
	return edits, want, nil
}

// renameInProfiles changes the name of a server in profiles, and the beginning of the names
// of its tools if that is the server's name.
func (d *document) renameInProfiles(edits []edit, want configfile.Node, old, name string, prefixed bool) ([]edit, configfile.Node, error) {
	renamed := func(key string, item configfile.Node) (string, bool) {
		if key == namesKey {
			return name, item.Kind == configfile.Text && item.Text == old
		}
		rest, found := strings.CutPrefix(item.Text, old+"__")
		return name + "__" + rest, found && prefixed && (key == "include" || key == "exclude")
	}
	affected := func(key string, item configfile.Node) bool { _, is := renamed(key, item); return is }
	return d.eachList(edits, want, affected, func(_ string, m member) ([]configfile.Node, []edit, error) {
		items := slices.Clone(m.Value.Items)
		var edits []edit
		for i, item := range items {
			text, is := renamed(m.Key, item)
			if !is {
				continue
			}
			at, err := d.itemAt(m, i)
			if err != nil {
				return nil, nil, err
			}
			items[i] = node(text)
			edits = append(edits, d.itemEdit(m, at, text))
		}
		return items, edits, nil
	})
}

// itemEdit replaces an item of a list in the style of the item.
func (d *document) itemEdit(list member, item span, text string) edit {
	s := style{json: d.json}
	if c := d.text[item.start]; d.json || c == '"' || c == '\'' {
		s.quote = c
	}
	return edit{item.start, item.end, s.scalar(text, d.text[list.value.start] == '[')}
}

// removeFromProfiles takes a server out of the lists of profiles. It must not be the only one
// of a list: a profile without the list has all servers.
func (d *document) removeFromProfiles(edits []edit, want configfile.Node, name string) ([]edit, configfile.Node, error) {
	isServer := func(item configfile.Node) bool { return item.Kind == configfile.Text && item.Text == name }
	affected := func(key string, item configfile.Node) bool { return key == namesKey && isServer(item) }
	return d.eachList(edits, want, affected, func(profile string, m member) ([]configfile.Node, []edit, error) {
		items := m.Value.Items
		i := slices.IndexFunc(items, isServer)
		if len(items) == 1 {
			return nil, nil, d.refuse(items[i].At, "remove the profile, or change its servers, first", "the profile %q has no other server than %q", profile, name)
		}
		one, err := d.itemRemoval(m, i)
		return slices.Delete(slices.Clone(items), i, i+1), []edit{one}, err
	})
}

// itemRemoval removes one of several items of a list.
func (d *document) itemRemoval(list member, i int) (edit, error) {
	item, err := d.itemAt(list, i)
	if err != nil {
		return edit{}, err
	}
	if d.text[list.value.start] != '[' {
		// The line, with a comment on it, and the line break before it.
		before := d.lineStart(d.lineStart(item.start) - 1)
		return edit{d.lineEnd(before), d.lineEnd(item.end), ""}, nil
	}
	// The item and what is between it and the next one, or the one before.
	other, last := i+1, i+1 == len(list.Value.Items)
	if last {
		other = i - 1
	}
	neighbour, err := d.itemAt(list, other)
	if err != nil {
		return edit{}, err
	}
	e, between := edit{item.start, neighbour.start, ""}, span{item.end, neighbour.start}
	if last {
		e, between = edit{neighbour.end, item.end, ""}, span{neighbour.end, item.start}
	}
	if len(bytes.Trim(d.text[between.start:between.end], ", \t\r\n")) > 0 {
		return edit{}, d.tooHard(between.start) // comments
	}
	return e, nil
}
