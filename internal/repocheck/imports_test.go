// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// repoLayers is the direction of imports, highest layer first: a package may import
// packages of the layers below its own and no others. "x/..." covers x and the packages
// below it. Tests are exempt, because an import cycle through a test does not compile,
// and the best peer of server in a test is client.
var repoLayers = [][]string{
	{"cmd/signalbox"},
	{"cmd/signalbox/internal/doctor"},
	{"cmd/signalbox/internal/add", "cmd/signalbox/internal/attach", "cmd/signalbox/internal/connect"},
	{"cmd/signalbox/internal/admin", "cmd/signalbox/internal/check", "cmd/signalbox/internal/lock", "cmd/signalbox/internal/login", "cmd/signalbox/internal/pin", "cmd/signalbox/internal/requests", "cmd/signalbox/internal/secrets", "cmd/signalbox/internal/status", "cmd/signalbox/internal/why"},
	{"cmd/signalbox/internal/cost", "cmd/signalbox/internal/policy"},
	{"cmd/signalbox/internal/edit", "cmd/signalbox/internal/serve", "cmd/signalbox/internal/target"},
	{"cmd/signalbox/internal/logs"},
	{"cmd/signalbox/internal/control"},
	{"cmd/signalbox/internal/source"},
	{"cmd/signalbox/internal/profiles"},
	{"cmd/signalbox/internal/command"},
	{"cmd/signalbox/internal/output", "cmd/signalbox/internal/version"},
	{"."},
	{"internal/access"},
	{"internal/auth", "internal/backend", "config", "internal/clientfile", "internal/imports", "internal/console", "internal/quota", "internal/signin", "internal/confirm"},
	{"internal/oidc"},
	{"internal/grant"},
	{"server", "client", "internal/vault"},
	{"client/internal/modern", "client/internal/legacy"},
	{"client/internal/httpconn", "client/internal/stdio", "client/internal/process"},
	{"client/internal/call"},
	{"internal/demo", "internal/bound"},
	{"mux"},
	{"internal/session", "internal/catalog", "internal/frame", "internal/audit", "internal/metrics", "internal/question", "internal/recorder", "internal/revision", "internal/seal", "internal/store", "internal/configedit", "internal/keptlists", "internal/relay", "internal/oauth", "internal/principal", "internal/policy"},
	{"internal/configfile", "internal/configpath", "internal/clients", "internal/search", "internal/spelling", "internal/redact", "internal/gctune", "internal/http1", "internal/logging", "internal/listen", "internal/task", "internal/backoff", "internal/serial", "internal/safefile", "internal/ledger", "internal/code", "internal/envfile", "internal/shellpath", "internal/journal", "internal/runner", "internal/keyring", "internal/glob", "internal/hangup", "internal/pins", "internal/valid"},
	{"internal/jsonrpc", "internal/extension"},
	{"mcp"},
	{"internal/jsonscan"},
}

// repoSideways lists the imports inside one layer that are allowed. Each needs its
// reason beside it.
var repoSideways = map[string][]string{}

// repoOnlyFor lists packages that only these others may import, whatever their layer
// is, to confine their dependencies and side effects.
var repoOnlyFor = map[string][]string{
	"internal/configfile": {"cmd/signalbox/internal/policy", "config", "internal/clientfile", "internal/configedit", "internal/imports"}, // the YAML library
	"internal/gctune":     {"cmd/signalbox/internal/serve"},                                                                              // it changes settings of the whole process
	"internal/keyring":    {"config", "internal/vault"},                                                                                  // the keyring of the system
	"internal/metrics":    {"."},                                                                                                         // the libraries of telemetry
}

// repoTestOnly are the packages that exist for tests: they may import everything, and
// only tests and each other may import them.
var repoTestOnly = []string{"internal/bubble", "internal/logging/logtest", "cmd/signalbox/internal/commandtest", "test/browser", "test/callertest", "test/canary", "test/sim/...", "test/faultyserver/...", "test/gatewaytest", "test/memnet", "test/poisoning", "test/tap", "test/toolsets", "internal/peertest/...", "internal/jsonscan/jsontest"}

// repoPure lists the packages that import the standard library only, and the packages
// of this module that they may import besides it.
var repoPure = map[string][]string{
	"internal/jsonscan":   nil,
	"mcp":                 {"internal/jsonscan"},
	"internal/jsonrpc":    {"mcp", "internal/jsonscan"},
	"internal/extension":  {"mcp", "internal/jsonscan"},
	"internal/revision":   {"mcp", "internal/extension", "internal/jsonrpc", "internal/jsonscan"},
	"internal/session":    {"mcp", "internal/jsonrpc", "internal/jsonscan"},
	"internal/redact":     nil,
	"internal/code":       nil,
	"internal/envfile":    nil,
	"internal/clients":    nil,
	"internal/configpath": nil,
	"internal/gctune":     nil,
	"internal/glob":       nil,
	"internal/http1":      nil,
	"internal/journal":    nil,
	"internal/runner":     nil,
	"internal/seal":       nil,
	"internal/shellpath":  nil,
	"internal/spelling":   nil,
	"internal/valid":      nil,
}

// matches reports whether a pattern of the tables above covers a package.
func matches(pattern, pkg string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	return pkg == pattern
}

func anyMatches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// layerOf returns the index of a package's layer, or -1.
func layerOf(pkg string) int {
	return slices.IndexFunc(repoLayers, func(layer []string) bool { return anyMatches(layer, pkg) })
}

// ourPackage returns the folder of an import of this module.
func ourPackage(imported string) (string, bool) {
	if imported == repoModule {
		return ".", true
	}
	return strings.CutPrefix(imported, repoModule+"/")
}

// isStandard reports whether an import is of the standard library: those have no dot in
// their first element.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// productCode returns the files of the product that are not tests.
func productCode(files []sourceFile) []sourceFile {
	return slices.DeleteFunc(slices.Clone(files), func(f sourceFile) bool {
		return f.module != "." || f.isTest()
	})
}

// importDirection finds imports that do not point down the layers.
func importDirection(files []sourceFile) []string {
	var breaches []string
	for _, f := range productCode(files) {
		for _, s := range f.syntax.Imports {
			to, ours := ourPackage(importPath(s))
			if !ours {
				continue
			}
			if why := refuseImport(f.pkg(), to); why != "" {
				breaches = append(breaches, f.breach(s.Pos(), "%s imports %s, %s", f.pkg(), to, why))
			}
		}
	}
	return breaches
}

// refuseImport returns why one package of ours may not import another, or "".
func refuseImport(from, to string) string {
	switch {
	case anyMatches(repoTestOnly, from):
		return ""
	case anyMatches(repoTestOnly, to):
		return "which is for tests"
	case slices.Contains(repoSideways[from], to):
		return ""
	case repoOnlyFor[to] != nil && !slices.Contains(repoOnlyFor[to], from):
		return "which is for others"
	case layerOf(to) == layerOf(from):
		return "which is in the same layer"
	case layerOf(to) < layerOf(from):
		return "which is in a higher layer"
	}
	return ""
}

func TestRepoImportDirection(t *testing.T) {
	our := func(pkg string) string { return fmt.Sprintf("import %q", path.Join(repoModule, pkg)) }
	testSourceRule(t, importDirection, []ruleCase{
		{name: "down one layer and down many", files: map[string]string{
			"cmd/signalbox/main.go":    our("."),
			"x.go":                     our("mcp"),
			"internal/backend/pool.go": our("client"),
			"server/legacy.go":         our("internal/session"),
		}},
		{name: "other modules are not its business", files: map[string]string{
			"mcp/id.go": `import ("strconv"; "example.com/mod")`,
		}},
		{name: "up", files: map[string]string{"mcp/id.go": our("server"), "client/http.go": our("")},
			want: []string{
				"client/http.go:1: client imports ., which is in a higher layer",
				"mcp/id.go:1: mcp imports server, which is in a higher layer",
			}},
		{name: "sideways", files: map[string]string{"server/bridge.go": our("client")},
			want: []string{"server/bridge.go:1: server imports client, which is in the same layer"}},
		{name: "what is for one alone", files: map[string]string{
			"x.go":             our("internal/metrics"),
			"server/server.go": our("internal/metrics"),
		}, want: []string{"server/server.go:1: server imports internal/metrics, which is for others"}},
		{name: "tests are free", files: map[string]string{"server/bridge_test.go": our("client")}},
		{name: "what is for tests", files: map[string]string{
			"test/sim/run.go":  our("server"),
			"server/server.go": our("test/sim"),
		}, want: []string{"server/server.go:1: server imports test/sim, which is for tests"}},
	})
}

// layerless finds packages that the tables do not contain, so that a new package is
// assigned a layer.
func layerless(files []sourceFile) []string {
	unknown := make(map[string]bool)
	for _, f := range productCode(files) {
		if layerOf(f.pkg()) < 0 && !anyMatches(repoTestOnly, f.pkg()) {
			unknown[f.pkg()] = true
		}
	}
	var breaches []string
	for _, pkg := range slices.Sorted(maps.Keys(unknown)) {
		breaches = append(breaches, pkg+": is in no layer of repoLayers (internal/repocheck/imports_test.go)")
	}
	return breaches
}

func TestRepoEachPackageHasALayer(t *testing.T) {
	testSourceRule(t, layerless, []ruleCase{
		{name: "known", files: map[string]string{
			"x.go": "", "cmd/signalbox/main.go": "", "mcp/id.go": "", "test/faultyserver/slow/slow.go": "",
		}},
		{name: "unknown", files: map[string]string{
			"util/b.go": "", "util/a.go": "", "mcp/deep/x.go": "", "only/tests_test.go": "",
		}, want: []string{
			"mcp/deep: is in no layer of repoLayers (internal/repocheck/imports_test.go)",
			"util: is in no layer of repoLayers (internal/repocheck/imports_test.go)",
		}},
	})
}

// impure finds imports of repoPure's packages that are neither of the standard library
// nor allowed there.
func impure(files []sourceFile) []string {
	var breaches []string
	for _, f := range productCode(files) {
		allowed, pure := repoPure[f.pkg()]
		if !pure {
			continue
		}
		for _, s := range f.syntax.Imports {
			imported := importPath(s)
			if to, _ := ourPackage(imported); isStandard(imported) || slices.Contains(allowed, to) {
				continue
			}
			breaches = append(breaches, f.breach(s.Pos(), "%s imports %s", f.pkg(), imported))
		}
	}
	return breaches
}

func TestRepoPurePackagesImportTheStandardLibraryOnly(t *testing.T) {
	mcp := fmt.Sprintf("import %q", path.Join(repoModule, "mcp"))
	testSourceRule(t, impure, []ruleCase{
		{name: "allowed", files: map[string]string{
			"mcp/id.go":                `import "encoding/json"`,
			"internal/session/core.go": mcp,
			"server/x.go":              `import "golang.org/x/sync/errgroup"`,
			"mcp/id_test.go":           `import "github.com/google/go-cmp/cmp"`,
		}},
		{name: "not allowed", files: map[string]string{
			"internal/session/core.go":  `import "golang.org/x/sync/errgroup"`,
			"internal/session/other.go": fmt.Sprintf("import %q", path.Join(repoModule, "internal/store")),
			"mcp/id.go":                 `import "github.com/google/jsonschema-go/jsonschema"`,
			"mcp/self.go":               mcp,
		}, want: []string{
			"internal/session/core.go:1: internal/session imports golang.org/x/sync/errgroup",
			"internal/session/other.go:1: internal/session imports " + repoModule + "/internal/store",
			"mcp/id.go:1: mcp imports github.com/google/jsonschema-go/jsonschema",
			"mcp/self.go:1: mcp imports " + repoModule + "/mcp",
		}},
	})
}
