// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/runner"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

// resolveTime bounds one question to a package manager, which may have to ask its registry
// and to install the package.
const resolveTime = time.Minute

// resolver finds the version of a package that its runner would start now.
type resolver struct {
	command string // the runner, as in the file
	args    []string
	dir     string // in which the server starts
	environ []string
	path    string // of environ
}

// resolverOf returns the resolver of a server.
func resolverOf(ctx context.Context, e *command.Env, name, command string, args []string, servers []config.Backend) *resolver {
	r := &resolver{command: command, args: args, dir: e.Path(".")}
	path, _ := e.LookupEnv("PATH")
	var own []string
	if i := slices.IndexFunc(servers, func(s config.Backend) bool { return s.Name == name }); i >= 0 {
		s := &servers[i]
		r.dir = cmp.Or(s.Cwd, r.dir)
		for name, value := range s.Env {
			if name == "PATH" {
				path = value.Reveal()
			}
			own = append(own, name+"="+value.Reveal())
		}
	}
	if filepath.IsAbs(command) {
		path = shellpath.Join(filepath.Dir(command), path)
	} else if shellpath.Find(path, filepath.Base(command)) == "" {
		path = shellpath.Join(e.LoginPath(ctx), path)
	}
	// As for the process of a server, which does not get the settings of package managers.
	for _, variable := range os.Environ() {
		if key, _, _ := strings.Cut(variable, "="); !isManagerSetting(key) {
			r.environ = append(r.environ, variable)
		}
	}
	r.path = path
	r.environ = append(append(r.environ, own...), "PATH="+path)
	return r
}

// isManagerSetting reports whether a variable is a setting of a package manager.
func isManagerSetting(variable string) bool {
	upper := strings.ToUpper(variable)
	return slices.ContainsFunc([]string{"NPM_CONFIG_", "UV_", "PIP_", "PIPX_", "DOCKER_"}, func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
}

// version returns the exact version of a package, or the digest of an image, and where it is
// from.
func (r *resolver) version(ctx context.Context, p *runner.Package) (version, source string, err error) {
	switch p.Kind {
	case runner.NPM:
		version, source, err = r.npm(ctx, p)
	case runner.PyPI:
		version, source, err = r.python(ctx, p)
	default:
		version, source, err = r.image(ctx, p)
	}
	if err != nil {
		return "", "", err
	}
	if pinned, ok := runner.Find(r.command, slices.Concat(r.args[:p.Index], []string{p.Argument(version)})); !ok || !pinned.IsExact() {
		return "", "", fmt.Errorf("%q is not a version", output.Shorten(version, output.ExcerptLength))
	}
	return version, source, nil
}

// The options that say where packages are from. The same name may be another package elsewhere.
var (
	npmSource  = regexp.MustCompile(`^--(?:registry|userconfig|globalconfig|@[^:=]+:registry)(?:=|$)`)
	pipxSource = regexp.MustCompile(`^(?:--index-url|-i)(?:=|$)`)
)

// optionsOf returns the options that match, with their values.
func optionsOf(args []string, option *regexp.Regexp) []string {
	var found []string
	for i, arg := range args {
		switch {
		case !option.MatchString(arg):
		case strings.Contains(arg, "="), i+1 == len(args):
			found = append(found, arg)
		default:
			found = append(found, arg, args[i+1])
		}
	}
	return found
}

// npm finds a version as npx does, or else the newest of the registry.
func (r *resolver) npm(ctx context.Context, p *runner.Package) (version, source string, err error) {
	if p.Runner == "npx" || p.Runner == "npm" {
		if version, source = r.installed(ctx, p); version != "" {
			return version, source, nil
		}
	}
	args := append([]string{"view", p.Spec(), "version", "--json"}, optionsOf(r.args[:p.Index], npmSource)...)
	text, err := r.ask(ctx, "npm", args...)
	if err != nil {
		return "", "", err
	}
	// Of several versions in a range, the last one is the newest.
	if err := json.Unmarshal([]byte(text), &version); err == nil {
		return version, "the newest in the registry", nil
	}
	var versions []string
	if err := json.Unmarshal([]byte(text), &versions); err != nil || len(versions) == 0 {
		return "", "", errors.New("npm view did not print one")
	}
	return versions[len(versions)-1], "the newest of that range in the registry", nil
}

// installed returns the version that npx would start without asking the registry: that of an
// installed package if any version will do, or else that of its cache.
func (r *resolver) installed(ctx context.Context, p *runner.Package) (version, source string) {
	var folders []string
	if p.Version == "" {
		folders = append(folders, filepath.Join(r.dir, "node_modules"))
		if global, err := r.ask(ctx, "npm", "root", "-g"); err == nil {
			folders = append(folders, global)
		}
	}
	for _, folder := range folders {
		if v := npmVersion(folder, p.Name); v != "" {
			return v, "which is installed in " + folder
		}
	}
	cache, err := r.ask(ctx, "npm", "config", "get", "cache")
	if err != nil {
		return "", "" // npm view reports it
	}
	return npmVersion(npxFolder(cache, p.Spec()), p.Name), "which npx has installed before"
}

// npxFolder returns the folder of modules that npx has installed for a package. npx names it
// after a hash of what is to be installed.
func npxFolder(cache, spec string) string {
	sum := sha512.Sum512([]byte(spec))
	return filepath.Join(cache, "_npx", hex.EncodeToString(sum[:])[:16], "node_modules")
}

// npmVersion returns the version of a package in a folder of modules, or "".
func npmVersion(folder, name string) string {
	text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name), "package.json"))
	if err != nil {
		return ""
	}
	var p struct {
		Version string `json:"version"`
	}
	if control.Decode(text, &p) != nil {
		return ""
	}
	return p.Version
}

// python finds a version by running Python in the environment that uv would start the server
// in: first without the network, which is what has been installed before.
func (r *resolver) python(ctx context.Context, p *runner.Package) (version, source string, err error) {
	program, before := r.command, []string{}
	if p.Runner == "uv" {
		before = []string{"tool", "run"}
	}
	// The options of the server, such as an index, count here, too.
	options := slices.Clone(r.args[len(before):p.Index])
	if n := len(options); n > 0 && options[n-1] == "--from" {
		options = options[:n-1]
	}
	if p.Runner == "pipx" {
		if slices.ContainsFunc(options, func(arg string) bool { return strings.HasPrefix(arg, "--pip-args") }) {
			return "", "", errors.New("only pip understands its --pip-args, which may name another index; write the version by hand")
		}
		program, options = "uvx", optionsOf(options, pipxSource)
	}
	script := fmt.Sprintf("import importlib.metadata as m; print(m.version(%q))", p.Name)
	rest := []string{"--from", p.Spec(), "python", "-c", script}
	if p.Runner != "pipx" {
		if version, err = r.ask(ctx, program, slices.Concat(before, []string{"--offline"}, options, rest)...); err == nil {
			return version, "which uv has installed before", nil
		}
	}
	version, err = r.ask(ctx, program, slices.Concat(before, options, rest)...)
	return version, "the newest in the registry", err
}

// image finds the digest of an image that has been pulled.
func (r *resolver) image(ctx context.Context, p *runner.Package) (digest, source string, err error) {
	text, err := r.ask(ctx, r.command, "image", "inspect", "--format", "{{json .RepoDigests}}", p.Reference())
	if err != nil {
		return "", "", fmt.Errorf("%w; '%s pull %s' gets the image", err, p.Runner, p.Reference())
	}
	var all []string
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 {
		return "", "", errors.New("the image has no digest; one that was built here gets it when it is pushed")
	}
	digest = ""
	for _, one := range all {
		name, sum, _ := strings.Cut(one, "@")
		if digest == "" || name == p.Name || strings.HasSuffix(name, "/"+p.Name) {
			digest = sum
		}
	}
	return digest, "which has been pulled before", nil
}

// ask runs a program and returns what it prints, without the space around it.
func (r *resolver) ask(whole context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(whole, resolveTime)
	defer cancel()
	file := program
	if !filepath.IsAbs(program) {
		if file = shellpath.Find(r.path, filepath.Base(program)); file == "" {
			return "", fmt.Errorf("%s was not found in PATH", program)
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, file, args...) //nolint:gosec // the package manager of the user's own configuration
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.environ, &said
	endAsGroup(cmd)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case whole.Err() != nil:
		return "", errors.New("interrupted")
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s %s: no answer within %v", program, args[0], resolveTime)
	case err != nil:
		return "", fmt.Errorf("%s %s: %s", program, args[0], cmp.Or(errorLine(said.String()), err.Error()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Lines of package managers that do not say what is wrong.
var besides = regexp.MustCompile(`^(npm (ERR!|error) +(code |A complete log )|npm (ERR!|error) \S+$|hint:|$)`)

// errorLine returns the line of a package manager that says what is wrong.
func errorLine(said string) string {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); strings.Contains(strings.ToLower(line), "err") && !besides.MatchString(line) {
			return output.Shorten(output.VisibleLine(line), output.ExcerptLength)
		}
	}
	return output.Shorten(output.VisibleLine(said), output.ExcerptLength)
}
