// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bufio"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Direct returns the program with which npx would run a package that it has installed, and
// its arguments: node, and the file of the package. npx itself takes most of the time until
// that starts, and more memory than many servers. getenv returns the variables that npx
// would have.
//
// It reports false unless npx would do exactly that: for a package with an exact version in
// its cache, with a script of node as its program, and no options but --yes. The folders of
// the cache are those of npm from version 7 on.
func Direct(command string, args []string, getenv func(string) string) (program string, direct []string, ok bool) {
	p, ok := Find(command, args)
	if !ok || p.Runner != "npx" || !p.IsExact() || p.option != "" {
		return "", nil, false
	}
	if slices.ContainsFunc(args[:p.Index], func(arg string) bool { return arg != "-y" && arg != "--yes" }) {
		return "", nil, false
	}
	folder := installedIn(args[p.Index], getenv)
	if folder == "" {
		return "", nil, false
	}
	script := scriptOf(filepath.Join(folder, "node_modules", filepath.FromSlash(p.Name)), &p)
	if script == "" {
		return "", nil, false
	}
	return "node", append([]string{script}, args[p.Index+1:]...), true
}

// installedIn returns the folder into which npx installs a package, or "" if it has no cache.
func installedIn(spec string, getenv func(string) string) string {
	cache := getenv("npm_config_cache")
	switch home, local := getenv("HOME"), getenv("LOCALAPPDATA"); {
	case cache != "":
	case runtime.GOOS == "windows" && local != "":
		cache = filepath.Join(local, "npm-cache")
	case runtime.GOOS != "windows" && home != "":
		cache = filepath.Join(home, ".npm")
	default:
		return ""
	}
	const digits = 16
	sum := sha512.Sum512([]byte(spec))
	return filepath.Join(cache, "_npx", hex.EncodeToString(sum[:])[:digits])
}

// scriptOf returns the file of an installed package that npx would run, or "".
func scriptOf(folder string, p *Package) string {
	var manifest struct {
		Version string
		Bin     json.RawMessage
	}
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil || manifest.Version != strings.TrimPrefix(p.Version, "v") {
		return ""
	}
	bin := binOf(manifest.Bin, p.Name[strings.LastIndexByte(p.Name, '/')+1:])
	if bin == "" || !filepath.IsLocal(filepath.FromSlash(bin)) {
		return ""
	}
	script := filepath.Join(folder, filepath.FromSlash(bin))
	if !isNodeScript(script) {
		return ""
	}
	return script
}

// binOf returns the program of a package, which is the only one or has its name.
func binOf(raw []byte, name string) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var several map[string]string
	if json.Unmarshal(raw, &several) != nil {
		return ""
	}
	if len(several) == 1 {
		for _, bin := range several {
			return bin
		}
	}
	return several[name]
}

// isNodeScript reports whether the system would run a file with node and without options.
func isNodeScript(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 128).ReadString('\n')
	return err == nil && strings.TrimRight(line, "\r\n") == "#!/usr/bin/env node"
}
