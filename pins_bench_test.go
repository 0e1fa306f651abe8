// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// pinnedTools returns the definitions of n tools, each of about 1 KiB, and pins that have approved them, in the text that
// approved makes of each.
func pinnedTools(tb testing.TB, n int, approved func(string) string) ([]json.RawMessage, *pinsInUse) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "signalbox.yaml")
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	l, d := pins.NewLock(), pins.NewDigester(nil)
	var tools []json.RawMessage
	for i := range n {
		tool := fmt.Sprintf(`{"name":"tool%d","description":%q,"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`,
			i, strings.Repeat("It finds what it does. ", 34))
		tools = append(tools, json.RawMessage(tool))
		text := approved(tool)
		digest := d.Of([]byte(text))
		l.Approve(pins.Key{Server: "b", Kind: pins.Tool, Name: fmt.Sprintf("tool%d", i)}, digest)
		if text != tool {
			write(config.TextFile(file, digest), text)
		}
	}
	write(config.LockFile(file), string(l.Format()))
	write(file, `mcpServers: {b: {url: "http://b/mcp"}}`)
	cfg, err := config.Load(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return tools, newPinsInUse(cfg)
}

// buildPinned builds a catalog of tools. p may be nil.
func buildPinned(tools []json.RawMessage, p *pinsInUse) *catalog.Catalog {
	in := catalog.Backend{Name: "b", State: catalog.Live}
	in.Lists[catalog.Tools].Items = tools
	return catalog.Build([]catalog.Backend{in}, catalog.Options{Pin: p.judgeItem})
}

func otherText(tool string) string { return strings.Replace(tool, "It finds", "It found", 1) }

func sameText(tool string) string { return tool }

func copyOf(tools []json.RawMessage) (all []json.RawMessage) {
	for _, tool := range tools {
		all = append(all, bytes.Clone(tool))
	}
	return all
}

// A catalog of 2,000 tools, without pins, of approved definitions, and of frozen ones; of lists that were judged before,
// and of lists that have just been fetched.
func BenchmarkPinnedCatalog(b *testing.B) {
	const many = 2000
	for name, approved := range map[string]func(string) string{"approved": sameText, "frozen": otherText} {
		tools, p := pinnedTools(b, many, approved)
		b.Run(name+"/unchanged", func(b *testing.B) {
			buildPinned(tools, p)
			for b.Loop() {
				buildPinned(tools, p)
			}
		})
		b.Run(name+"/fetched", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				fetched := copyOf(tools)
				b.StartTimer()
				buildPinned(fetched, p)
			}
		})
		b.Run(name+"/first", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				p := newPinsInUse(p.cfg)
				b.StartTimer()
				buildPinned(tools, p)
			}
		})
	}
	tools, _ := pinnedTools(b, many, sameText)
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			buildPinned(tools, nil)
		}
	})
}

// An item is judged once for each time that its list is fetched, whatever becomes of it.
func TestPinsJudgeAnItemOnce(t *testing.T) {
	for name, approved := range map[string]func(string) string{
		"approved": sameText, "frozen": otherText, "held": func(tool string) string { return strings.Replace(tool, "integer", "number", 1) },
	} {
		tools, p := pinnedTools(t, 3, approved)
		before := buildPinned(tools, p)
		digests := p.digests
		p.digests = nil // to judge anything needs them
		after := buildPinned(tools, p)
		if a, b := before.Version(), after.Version(); a != b || len(before.Problems()) != len(after.Problems()) {
			t.Errorf("%s: the second catalog differs: %v and %v", name, before.Problems(), after.Problems())
		}
		p.digests = digests
		// Other bytes are another item, also at the places of the first.
		tools[1] = json.RawMessage(strings.Replace(string(tools[1]), "integer", "ATTACK!", 1))
		for e := range buildPinned(tools, p).Entries(catalog.Tools) {
			if strings.Contains(string(e.JSON()), "ATTACK!") {
				t.Errorf("%s: offered %s", name, e.JSON())
			}
		}
	}
}

// What is kept of an item does not keep its list alive, and is bounded.
func TestPinsForgetItems(t *testing.T) {
	tools, p := pinnedTools(t, 1, sameText)
	for range maxJudged + 1 {
		p.judgeItem("b", catalog.Tools, bytes.Clone(tools[0]))
	}
	if n := len(p.known); n > maxJudged {
		t.Errorf("%d items are kept", n)
	}
	gone := make(chan bool)
	item := bytes.Clone(tools[0])
	runtime.AddCleanup(&item[0], func(c chan bool) { close(c) }, gone)
	p.judgeItem("b", catalog.Tools, item)
	defer runtime.KeepAlive(p)
	for start := time.Now(); time.Since(start) < 10*time.Second; {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("it is kept")
}
