// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runner knows the programs that install a package of a registry and run it, such as
// npx and uvx: where their arguments have the package, and how its version is written.
package runner

import (
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a package's registry.
type Kind uint8

// The kinds.
const (
	NPM   Kind = iota
	PyPI       // Python packages
	Image      // container images
)

// Manager returns the name of the package manager that most often installs packages of the kind.
func (k Kind) Manager() string { return []string{"npm", "uv", "docker"}[k] }

// Program returns the name of the program that most often runs packages of the kind.
func (k Kind) Program() string { return []string{"node", "python", "container"}[k] }

// Package is a package in the arguments of a command.
type Package struct {
	Kind   Kind
	Runner string // the program, such as "npx"
	Name   string // such as "@scope/name", "name" or "registry.example/name"
	Extras string // of a Python package, such as "[cli]"

	// Version is what is written after the name: a version, a range or a tag of npm; the
	// digest of an image, such as "sha256:...". It may be empty.
	Version string
	Tag     string // of an image

	Index  int    // of the argument
	option string // before the package in the same argument, such as "--from="
}

// form is how a runner's arguments have the package.
type form struct {
	kind     Kind
	words    []string // before the options, such as "tool", "run"
	packages []string // the options with the package; without them it is the first word
	values   []string // the other options with a value in the next argument
	none     []string // options of a command without a package
}

// formsOf returns the forms of a runner, or nil for another program.
func formsOf(program string) []form {
	npx := form{
		packages: []string{"-p", "--package"}, none: []string{"-c", "--call"},
		values: []string{"--registry", "-w", "--workspace", "--cache", "--prefix", "--userconfig", "--loglevel", "--script-shell"},
	}
	uvx := form{kind: PyPI, packages: []string{"--from"}, values: []string{
		"-w", "--with", "--with-editable", "--with-requirements", "-c", "--constraints", "-b", "--build-constraints", "--overrides", "--env-file",
		"-p", "--python", "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--index-strategy",
		"--keyring-provider", "-P", "--upgrade-package", "--resolution", "--prerelease", "--fork-strategy", "--exclude-newer", "--reinstall-package",
		"--link-mode", "-C", "--config-setting", "--no-build-isolation-package", "--no-build-package", "--no-binary-package", "--refresh-package",
		"--cache-dir", "--color", "--directory", "--project", "--config-file", "--python-platform", "--torch-backend", "--allow-insecure-host",
	}}
	pipx := form{kind: PyPI, packages: []string{"--spec"}, values: []string{
		"--python", "--pip-args", "-i", "--index-url", "--with",
	}}
	after := func(f form, words ...string) form {
		f.words = words
		return f
	}
	switch program {
	case "npx", "bunx", "pnpx":
		return []form{npx}
	case "npm":
		return []form{after(npx, "exec"), after(npx, "x")}
	case "bun":
		return []form{after(npx, "x")}
	case "pnpm":
		return []form{after(npx, "dlx")}
	case "uvx":
		return []form{uvx}
	case "uv":
		return []form{after(uvx, "tool", "run")}
	case "pipx":
		return []form{after(pipx, "run")}
	case "docker", "podman":
		return []form{{kind: Image, words: []string{"run"}}, {kind: Image, words: []string{"container", "run"}}}
	default:
		return nil
	}
}

// Find returns the package that a command runs. It reports false for a program that is not a
// runner, and for a package that is not of a registry, such as a folder or a URL.
func Find(command string, args []string) (Package, bool) {
	program := command[strings.LastIndexAny(command, `/\`)+1:]
	program = strings.TrimSuffix(strings.TrimSuffix(program, ".exe"), ".cmd")
	for _, f := range formsOf(program) {
		n := len(f.words)
		if len(args) < n || !slices.Equal(args[:n], f.words) {
			continue
		}
		i, option := f.find(args, n)
		if i < 0 {
			return Package{}, false
		}
		p, ok := parse(f.kind, strings.TrimPrefix(args[i], option))
		p.Runner, p.Index, p.option = program, i, option
		return p, ok
	}
	return Package{}, false
}

// find returns the index of the argument with the package, from some index on, or -1, and the
// option in that argument.
func (f form) find(args []string, from int) (index int, option string) {
	if f.kind == Image {
		return findImage(args, from), ""
	}
	for i := from; i < len(args); i++ {
		arg := args[i]
		name, _, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(f.packages, name) && joined:
			return i, name + "="
		case slices.Contains(f.packages, name) && i+1 < len(args):
			return i + 1, ""
		case slices.Contains(f.none, name):
			return -1, ""
		case slices.Contains(f.values, name) && !joined:
			i++
		case arg == "--" && i+1 < len(args):
			return i + 1, ""
		case !strings.HasPrefix(arg, "-"):
			return i, ""
		}
	}
	return -1, ""
}

// findImage returns the index of the image in the arguments of docker run or podman run, or -1.
func findImage(args []string, from int) int {
	for i := from; i < len(args); i++ {
		arg := args[i]
		switch {
		case !strings.HasPrefix(arg, "-"):
			return i
		case arg == "--" && i+1 < len(args):
			return i + 1
		case arg == "--rootfs" || arg == "--rootfs=true":
			return -1 // a folder is in the place of the image
		case strings.HasPrefix(arg, "--"):
			if !strings.Contains(arg, "=") && !slices.Contains(imageSwitches(), arg) {
				i++ // its value
			}
		default:
			// Letters together. The last may have a value.
			letters := strings.TrimLeft(arg[1:], "ditPq")
			if len(letters) == 1 {
				i++
			}
		}
	}
	return -1
}

// imageSwitches returns the options of docker run and podman run without a value.
func imageSwitches() []string {
	return []string{
		"--detach", "--help", "--interactive", "--tty", "--publish-all", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck",
		"--oom-kill-disable", "--quiet", "--sig-proxy", "--disable-content-trust",
		"--use-api-socket", // of docker alone
		// Of podman alone.
		"--env-host", "--http-proxy", "--no-hostname", "--no-hosts", "--passwd", "--read-only-tmpfs", "--replace", "--rmi", "--tls-verify",
		"--unsetenv-all",
	}
}

var (
	npmSpec   = regexp.MustCompile(`^(@[\w.~-]+/[\w.~-]+|[\w.~-]+)(?:@([^@:/]*))?$`)
	pypiSpec  = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*)(\[[\w.,\s-]*\])?\s*(?:@\s*([\w.+!-]+)|((?:[=<>~!]=?=?).*))?$`)
	imageSpec = regexp.MustCompile(`^((?:[\w.-]+(?::\d+)?/)?[\w./-]+?)(?::([\w.-]+))?(?:@(\w+:[0-9a-fA-F]+))?$`)

	exactNPM  = regexp.MustCompile(`^v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?$`)
	exactPyPI = regexp.MustCompile(`^(?:={2,3}\s*)?(?:\d+!)?\d+(?:\.\d+)*[\w.+-]*$`)
)

// parse parses the package as it is written.
func parse(kind Kind, text string) (Package, bool) {
	p := Package{Kind: kind}
	switch kind {
	case NPM:
		m := npmSpec.FindStringSubmatch(text)
		if m == nil || strings.HasPrefix(text, ".") {
			return p, false
		}
		p.Name, p.Version = m[1], m[2]
	case PyPI:
		m := pypiSpec.FindStringSubmatch(text)
		if m == nil {
			return p, false
		}
		p.Name, p.Extras, p.Version = m[1], m[2], m[3]+m[4]
	case Image:
		m := imageSpec.FindStringSubmatch(text)
		if m == nil || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") {
			return p, false
		}
		p.Name, p.Tag, p.Version = m[1], m[2], m[3]
	}
	return p, true
}

// IsExact reports whether the version is one, and neither missing, a range, nor a tag.
func (p *Package) IsExact() bool {
	switch p.Kind {
	case NPM:
		return exactNPM.MatchString(p.Version)
	case PyPI:
		return exactPyPI.MatchString(p.Version) && !strings.Contains(p.Version, "*")
	default:
		return p.Version != ""
	}
}

// IsFloating reports whether the version is missing, or the tag that means the newest.
func (p *Package) IsFloating() bool { return p.Version == "" || p.Version == "latest" }

// Spec returns the package as it is written.
func (p *Package) Spec() string {
	switch {
	case p.Kind == Image:
		return p.Reference() + after("@", p.Version)
	case p.Kind == PyPI && strings.ContainsAny(p.Version, "=<>~!"):
		return p.Name + p.Extras + p.Version
	default:
		return p.Name + p.Extras + after("@", p.Version)
	}
}

// Reference returns the name of an image with its tag.
func (p *Package) Reference() string { return p.Name + after(":", p.Tag) }

// Pinned returns the package with an exact version, as it is written in an argument.
func (p *Package) Pinned(version string) string {
	q := *p
	q.Version = version
	switch {
	case p.Kind == PyPI:
		q.Version = "==" + version
	case p.Kind == Image && p.Tag == "latest":
		q.Tag = "" // it would contradict the digest soon
	}
	return q.Spec()
}

// Argument returns the argument with the package pinned to a version.
func (p *Package) Argument(version string) string { return p.option + p.Pinned(version) }

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}
