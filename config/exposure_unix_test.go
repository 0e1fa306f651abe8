// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// exposed is a file in new folders, which a test modifies.
type exposed struct {
	base, file string
	servers    []Backend
}

func (x *exposed) at(path ...string) string {
	return filepath.Join(append([]string{x.base}, path...)...)
}

func (x *exposed) gives(args ...string) {
	x.servers = append(x.servers, Backend{Name: "files", Command: "x", Args: args, Cwd: x.at("elsewhere")})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestExposureOf checks that a file counts as the operator's own only if no
// backend was given a folder that contains it, and no other user can write or replace it.
func TestExposureOf(t *testing.T) {
	link := func(t *testing.T, to, from string) { t.Helper(); must(t, os.Symlink(to, from)) }
	for _, tt := range []struct {
		name string
		make func(t *testing.T, x *exposed)
		want string // empty if only the operator can write it
	}{
		{"nothing is given", func(*testing.T, *exposed) {}, ""},
		{"another folder", func(_ *testing.T, x *exposed) { x.gives("-y", "@example/server", x.at("elsewhere")) }, ""},
		{"a folder below", func(t *testing.T, x *exposed) {
			must(t, os.Mkdir(x.at("etc", "below"), 0o700))
			x.gives(x.at("etc", "below"))
		}, ""},
		{"a folder with the same beginning", func(t *testing.T, x *exposed) { must(t, os.Mkdir(x.at("et"), 0o700)); x.gives(x.at("et")) }, ""},
		{"an address", func(_ *testing.T, x *exposed) {
			x.servers = append(x.servers, Backend{Name: "web", URL: "http://x/" + x.at("etc")})
		}, ""},
		{"one that is disabled", func(_ *testing.T, x *exposed) {
			x.servers = append(x.servers, Backend{Name: "off", Command: "x", Cwd: x.at("etc"), Disabled: true})
		}, ""},

		{"its folder", func(_ *testing.T, x *exposed) { x.gives(x.at("etc")) }, `backend "files" is given BASE/etc`},
		{"a folder above", func(_ *testing.T, x *exposed) { x.gives(x.base) }, `backend "files" is given BASE`},
		{"all there is", func(_ *testing.T, x *exposed) { x.gives("/") }, `backend "files" is given /`},
		{"the file itself", func(_ *testing.T, x *exposed) { x.gives(x.file) }, `backend "files" is given BASE/etc/signalbox.yaml`},
		{"the folder that it works in", func(_ *testing.T, x *exposed) {
			x.servers = append(x.servers, Backend{Name: "files", Command: "x", Cwd: x.at("etc")}, Backend{Name: "more", Command: "x", Cwd: x.at("etc")})
		}, `backend "files" works in BASE/etc, and so does another one`},
		{"a dot", func(_ *testing.T, x *exposed) { x.gives("../etc/.") }, `backend "files" is given BASE/etc`},
		{"behind an equals sign", func(_ *testing.T, x *exposed) { x.gives("--root=" + x.at("etc")) }, `backend "files" is given BASE/etc`},
		{"a volume", func(_ *testing.T, x *exposed) { x.gives("-v", x.at("etc")+":/data:ro") }, `backend "files" is given BASE/etc`},
		{"a mount", func(_ *testing.T, x *exposed) { x.gives("--mount", "type=bind,src="+x.at("etc")+",dst=/data") }, `backend "files" is given BASE/etc`},
		{"in a command line", func(_ *testing.T, x *exposed) { x.gives("-c", "exec server --ro "+x.at("etc")+" 2>&1") }, `backend "files" is given BASE/etc`},
		{"quoted in a command line", func(_ *testing.T, x *exposed) { x.gives("-c", "cd '"+x.at("etc")+"'&& server .") }, `backend "files" is given BASE/etc`},
		{"with a space, quoted", func(t *testing.T, x *exposed) {
			must(t, os.Rename(x.at("etc"), x.at("my etc")))
			x.file = x.at("my etc", "signalbox.yaml")
			x.gives("-c", `server "`+x.at("my etc")+`"`)
		}, `backend "files" is given BASE/my etc`},
		{"in JSON", func(_ *testing.T, x *exposed) { x.gives(`{"roots":["` + x.at("etc") + `"]}`) }, `backend "files" is given BASE/etc`},
		{"a file URI", func(_ *testing.T, x *exposed) { x.gives("file://" + x.at("etc")) }, `backend "files" is given BASE/etc`},
		{"below the home folder", func(t *testing.T, x *exposed) { t.Setenv("HOME", x.base); x.gives("-c", "server ~/etc") }, `backend "files" is given BASE/etc`},
		{"the home folder", func(t *testing.T, x *exposed) { t.Setenv("HOME", x.base); x.gives("-c", `server "${HOME}"`) }, `backend "files" is given BASE`},
		{"a variable", func(_ *testing.T, x *exposed) {
			x.servers = append(x.servers, Backend{Name: "notes", Command: "x", Cwd: x.at("elsewhere"), Env: map[string]Secret{"VAULT": NewSecret(x.at("etc"))}})
		}, `backend "notes" is given BASE/etc`},
		{"a link to its folder", func(t *testing.T, x *exposed) { link(t, x.at("etc"), x.at("away")); x.gives(x.at("away")) }, `backend "files" is given BASE/etc`},
		{"where a link to it is", func(t *testing.T, x *exposed) {
			link(t, x.file, x.at("elsewhere", "link.yaml"))
			x.file = x.at("elsewhere", "link.yaml")
			x.gives(x.at("elsewhere"))
		}, `backend "files" works in BASE/elsewhere`},
		{"where a link in the middle of the way is", func(t *testing.T, x *exposed) {
			must(t, os.Mkdir(x.at("between"), 0o700))
			link(t, "../etc", x.at("between", "two"))
			link(t, x.at("between", "two"), x.at("one"))
			x.file = x.at("one", "signalbox.yaml")
			x.gives(x.at("between"))
		}, `backend "files" is given BASE/between`},

		{"written by its group", func(t *testing.T, x *exposed) { must(t, os.Chmod(x.file, 0o660)) }, "the group of BASE/etc/signalbox.yaml can write it (mode 0660)"},
		{"written by everybody", func(t *testing.T, x *exposed) { must(t, os.Chmod(x.file, 0o602)) }, "all users of this machine can write BASE/etc/signalbox.yaml (mode 0602)"},
		{"in a folder of its group", func(t *testing.T, x *exposed) { must(t, os.Chmod(x.at("etc"), 0o770)) }, "the group of BASE/etc can write it (mode 0770)"},
		{"below a folder of its group", func(t *testing.T, x *exposed) { must(t, os.Chmod(x.base, 0o770)) }, "the group of BASE can write it (mode 0770)"},
		{"in a folder like /tmp", func(t *testing.T, x *exposed) { must(t, os.Chmod(x.at("etc"), 0o777|os.ModeSticky)) }, ""},
		{"behind a link in a folder of everybody", func(t *testing.T, x *exposed) {
			must(t, os.Mkdir(x.at("open"), 0o700), os.Chmod(x.at("open"), 0o777))
			link(t, x.file, x.at("open", "link.yaml"))
			x.file = x.at("open", "link.yaml")
		}, "all users of this machine can write BASE/open (mode 0777)"},
		{"under a second name", func(t *testing.T, x *exposed) { must(t, os.Link(x.file, x.at("elsewhere", "name"))) }, "BASE/etc/signalbox.yaml has a second name (a hard link)"},
		{"a folder with others in it", func(t *testing.T, x *exposed) { x.file = x.at("etc"); must(t, os.Mkdir(x.at("etc", "more"), 0o700)) }, ""},
		{"not there", func(_ *testing.T, x *exposed) { x.file = x.at("etc", "none.yaml") }, "the path of the file cannot be checked (lstat BASE/etc/none.yaml: no such file or directory)"},
		{"in a ring of links", func(t *testing.T, x *exposed) { link(t, x.at("ring"), x.at("ring")); x.file = x.at("ring") }, "the path of the file cannot be checked (too many links)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			x := &exposed{base: base, file: filepath.Join(base, "etc", "signalbox.yaml")}
			must(t, os.Mkdir(x.at("etc"), 0o700), os.Mkdir(x.at("elsewhere"), 0o700), os.WriteFile(x.file, nil, 0o600), os.Chmod(base, 0o700))
			tt.make(t, x)
			var e Exposure
			e.Add(&Config{Servers: x.servers})
			e.Add(&Config{}) // a process removed by a reload may still run
			if got := strings.ReplaceAll(strings.Join(e.Of(x.file), "; "), base, "BASE"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestExposureByOwner checks that the owner of a file is reported if it is another user.
func TestExposureByOwner(t *testing.T) {
	way, err := stepsTo("/")
	if err != nil || len(way) != 0 {
		t.Fatalf("the way to the root is %v, %v", way, err)
	}
	if got := new(Exposure).Of("/"); len(got) != 1 {
		t.Errorf("the root folder as a file: %q", got)
	}
	root, err := os.Lstat("/")
	must(t, err)
	if got := owned("/", owner{root, uint32(os.Geteuid()) + 1}); !strings.HasPrefix(got, "/ belongs to another user (uid ") {
		t.Errorf("another user's: %q", got)
	}
	for _, uid := range []uint32{0, uint32(os.Geteuid())} {
		if got := owned("/", owner{root, uid}); got != "" {
			t.Errorf("of user %d: %q", uid, got)
		}
	}
}

// owner is the FileInfo of a file with a given owner.
type owner struct {
	os.FileInfo

	uid uint32
}

func (o owner) Sys() any { return &syscall.Stat_t{Uid: o.uid} }
