// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// skillsExtension is the extension by which a server offers skills: texts for a model, as
// files that are read like resources. Package client does not support it, and need not: it
// forwards unknown methods like any other.
const skillsExtension = "io.modelcontextprotocol/skills"

// skill is one entry of skills/list: what is known of a skill before it is loaded, and the
// requirements for its files.
type skill struct {
	URI         string         `json:"uri"`
	Frontmatter map[string]any `json:"frontmatter"`
	Resources   []skillFile    `json:"resources"`
}

// skillFile is one file of a skill.
type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // "sha256:" and hexadecimal digits
	Size   int    `json:"size"`   // in bytes
}

// skills returns the skills of the server. It reads none of their files.
func (s *session) skills(ctx context.Context) ([]skill, error) {
	res, err := s.request(ctx, "skills/list", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Skills []skill `json:"skills"`
	}
	return list.Skills, json.Unmarshal(res.Bytes(), &list)
}

// listSkills lists the skills and chooses none.
func listSkills(ctx context.Context, s *session) error {
	_, err := s.skills(ctx)
	return err
}

// loadSkills loads every skill. A refused skill is the subject of those scenarios, and no
// failure of the client.
func loadSkills(ctx context.Context, s *session) error {
	all, err := s.skills(ctx)
	if err != nil {
		return err
	}
	for _, sk := range all {
		if err := s.load(ctx, sk); err != nil && !errors.Is(err, errSkill) {
			return err
		}
	}
	return nil
}

// errSkill is returned for a skill that does not match its entry.
var errSkill = errors.New("the skill does not match its entry")

// load reads the files of a skill, the one with the instructions first. If that does not
// match its entry, no other file is read.
func (s *session) load(ctx context.Context, sk skill) error {
	for _, file := range sk.Resources {
		text, err := s.read(ctx, file.URI)
		if err != nil {
			return err
		}
		if err := file.verify(text); err != nil {
			return err
		}
		if file.URI != sk.URI {
			continue
		}
		if err := sk.verify(text); err != nil {
			return err
		}
	}
	return nil
}

// read returns the text of a resource.
func (s *session) read(ctx context.Context, uri string) (string, error) {
	res, err := s.request(ctx, "resources/read", map[string]string{"uri": uri})
	if err != nil {
		return "", err
	}
	var read struct {
		Contents []struct {
			Text string `json:"text"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(res.Bytes(), &read); err != nil {
		return "", err
	}
	if len(read.Contents) != 1 {
		return "", fmt.Errorf("%s has %d contents", uri, len(read.Contents))
	}
	return read.Contents[0].Text, nil
}

// verify compares a file with its entry.
func (f skillFile) verify(text string) error {
	if len(text) != f.Size {
		return fmt.Errorf("%s: %w: %d bytes instead of %d", f.URI, errSkill, len(text), f.Size)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))); got != f.Digest {
		return fmt.Errorf("%s: %w: digest %s instead of %s", f.URI, errSkill, got, f.Digest)
	}
	return nil
}

// verify compares the front matter of a skill's text with that of its entry, which the user
// has agreed to.
func (sk skill) verify(text string) error {
	front, ok := strings.CutPrefix(text, "---\n")
	front, _, closed := strings.Cut(front, "\n---\n")
	if !ok || !closed {
		return fmt.Errorf("%s: %w: no front matter", sk.URI, errSkill)
	}
	var got map[string]any
	if err := yaml.Unmarshal([]byte(front), &got); err != nil {
		return fmt.Errorf("%s: %w: %w", sk.URI, errSkill, err)
	}
	if !reflect.DeepEqual(got, sk.Frontmatter) {
		return fmt.Errorf("%s: %w: other front matter", sk.URI, errSkill)
	}
	return nil
}
