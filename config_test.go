// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// limitKeys returns the keys of "limits" as in a file.
func limitKeys() map[string]bool {
	keys := map[string]bool{}
	for f := range reflect.TypeFor[config.Limits]().Fields() {
		keys[f.Tag.Get("json")] = true
	}
	return keys
}

// A setting named in an error must exist.
func TestLimitsInTextsExist(t *testing.T) {
	named := regexp.MustCompile(`\(limits\.([a-zA-Z]+)\)`)
	keys, found := limitKeys(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range named.FindAllStringSubmatch(lit.Value, -1) {
				found++
				if !keys[m[1]] {
					t.Errorf("%s: names limits.%s, which is no key", path, m[1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no text names a limit: the pattern is wrong")
	}
}

// The limit "none" is never reached, and not always.
func TestNoLimits(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"mcpServers": {}, "limits": {`)
	sep := ""
	for key := range limitKeys() {
		text.WriteString(sep + `"` + key + `": "none"`)
		sep = ", "
	}
	text.WriteString("}}")
	cfg, err := config.Parse("limits.json", []byte(text.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(*cfg, Options{InProcess: []InProcess{{Name: "demo", Handler: demo.New()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"demo__echo","arguments":{"text":"hi"}}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Serve(ctx, req, noCaller{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Bytes()), `{"content":[{"type":"text","text":"hi"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
