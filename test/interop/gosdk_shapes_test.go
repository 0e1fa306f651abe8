// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// headerAttempts is how often a header is tested, because other clients change the list
// meanwhile.
const headerAttempts = 5

// tryHeader lists the tools first: a client does not know the headers of a tool that it has
// not listed, or that has changed since.
func (s *goSession) tryHeader(ctx context.Context, p *callProbe) error {
	var err error
	for range headerAttempts {
		if _, err = s.listed(ctx, "tools"); err != nil {
			return err
		}
		if err = s.wantCall(ctx, p); err == nil {
			return nil
		}
	}
	return err
}

// tryKinds expects each kind of content, in order.
func (s *goSession) tryKinds(ctx context.Context, p *callProbe) error {
	res, err := s.callTool(ctx, *p, nil)
	if err != nil {
		return err
	}
	var kinds []string
	for _, c := range res.Content {
		kinds = append(kinds, kindOf(c))
	}
	return includes(strings.Join(kinds, " "), p.Want)
}

// kindOf returns the protocol's name of a kind of content.
func kindOf(c mcp.Content) string {
	switch c.(type) {
	case *mcp.TextContent:
		return "text"
	case *mcp.ImageContent:
		return "image"
	case *mcp.AudioContent:
		return "audio"
	case *mcp.EmbeddedResource:
		return "resource"
	case *mcp.ResourceLink:
		return "resource_link"
	default:
		return fmt.Sprintf("%T", c)
	}
}

// tryStructure checks the structured content, and not the content beside it.
func (s *goSession) tryStructure(ctx context.Context, p *callProbe) error {
	res, err := s.callTool(ctx, *p, nil)
	if err != nil {
		return err
	}
	got, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	return includes(string(got), p.Want)
}

// tryErrors expects an error with the right code.
func (s *goSession) tryErrors(ctx context.Context, p *errorProbe) error {
	_, err := s.cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: p.URI})
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("read %s: got %w, want an error with a code", p.URI, err)
	}
	if !slices.Contains(p.Codes, int(refused.Code)) {
		return fmt.Errorf("got code %d of %w, want one of %v", refused.Code, err, p.Codes)
	}
	return nil
}

// tryCaps checks the capabilities of the server, by the protocol's names.
func (s *goSession) tryCaps(want []string) error {
	declared, err := json.Marshal(s.cs.InitializeResult().Capabilities)
	if err != nil {
		return err
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(declared, &got); err != nil {
		return err
	}
	for _, w := range want {
		if _, ok := got[w]; !ok {
			return fmt.Errorf("%s is not in %s", w, declared)
		}
	}
	return nil
}
