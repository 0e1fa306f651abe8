// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Value returns the string that a server's entry has for a key, as it is written: references
// to variables are not replaced. It returns "" if there is none.
func (f File) Value(name, key string) string {
	value := f.valueOf(name, key)
	if value.Kind != configfile.Text {
		return ""
	}
	return value.Text
}

// valueOf returns the value of a key of a server's entry, or nothing.
func (f File) valueOf(name, key string) configfile.Node {
	_, entry, err := f.entry(name)
	if err != nil {
		return configfile.Node{}
	}
	value, _ := entry.node.Member(key)
	return value
}

// Values returns the list that a server's entry has for a key, with the items as they are
// written. It returns nil if there is none.
func (f File) Values(name, key string) []string {
	var texts []string
	for _, item := range f.valueOf(name, key).Items {
		texts = append(texts, item.Text)
	}
	return texts
}

// Servers returns the names of the servers, in order.
func (f File) Servers() []string {
	d, err := parse(f)
	if err != nil {
		return nil
	}
	servers, _ := d.serversNode()
	return keysOf(servers)
}

func keysOf(mapping configfile.Node) []string {
	var keys []string
	for _, m := range mapping.Members {
		keys = append(keys, m.Key)
	}
	return keys
}

// Has returns an error if the file has no server with the name.
func (f File) Has(name string) error {
	_, _, _, err := f.server(name)
	return err
}

// SetItem replaces one item of the list that a server's entry has for a key, by a string. The
// item must be a string.
func (f File) SetItem(name, key string, i int, text string) ([]byte, error) {
	d, entry, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	m, found := entry.member(key)
	if !found || m.Value.Kind != configfile.List || i >= len(m.Value.Items) {
		return nil, d.refuse(entry.node.At, "", "%q of the server %q has no item %d", key, name, i)
	}
	if err := entry.refuseTwice(m); err != nil {
		return nil, err
	}
	item, err := d.itemAt(m, i)
	if err != nil {
		return nil, err
	}
	list := m.Value
	list.Items = slices.Clone(list.Items)
	list.Items[i] = node(text)
	_, servers := d.serversNode()
	return d.result([]edit{d.itemEdit(m, item, text)}, with(d.root, []string{servers, name, key}, list))
}

// itemAt finds an item of the list that is the value of a member.
func (d *document) itemAt(m member, index int) (span, error) {
	items := m.Value.Items
	if items[index].Kind != configfile.Text {
		return span{}, d.refuse(items[index].At, "", "this item is not a string")
	}
	if d.text[m.value.start] != '[' {
		limit := m.value.end
		if index+1 < len(items) {
			limit = d.lineStart(d.offset(items[index+1].At))
		}
		// Not at the parser's column, which is too large by the blanks at the end of the line if
		// an empty line follows.
		start := d.afterDashes(d.lineStart(d.offset(items[index].At)))
		end, err := d.valueEnd(items[index], start, limit, false)
		return span{start, end}, err
	}
	at := m.value.start + 1
	for i, item := range items {
		start := d.skip(at)
		end, err := d.valueEnd(item, start, m.value.end, true)
		if err != nil || i == index {
			return span{start, end}, err
		}
		if at = d.skip(end); at < d.end && d.text[at] == ',' {
			at++
		}
	}
	return span{}, d.tooHard(m.value.start)
}
