// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const digest = "sha256:0123456789abcdef"
	for _, tt := range []struct {
		command string
		spec    string // as it is written; "" means none
		pinned  string // the arguments with version 1.2.3, or with the digest
	}{
		{"npx -y @x/server", "@x/server", "-y @x/server@1.2.3"},
		{"/opt/node/bin/npx @x/server@latest --root /srv", "@x/server@latest", "@x/server@1.2.3 --root /srv"},
		{`C:\node\npx.cmd server@^1.0.0`, "server@^1.0.0", "server@1.2.3"},
		{"npx -p @x/server cmd @x/other", "@x/server", "-p @x/server@1.2.3 cmd @x/other"},
		{"npx --package=server@1 cmd", "server@1", "--package=server@1.2.3 cmd"},
		{"npx --registry https://example.com server", "server", "--registry https://example.com server@1.2.3"},
		{"npx -y -- server -p x", "server", "-y -- server@1.2.3 -p x"},
		{"npx -c x", "", ""},
		{"npx", "", ""},
		{"npx -y", "", ""},
		{"npx -p", "", ""},
		{"npx ./server", "", ""},
		{"npx . ", "", ""},
		{"npx user/repository", "", ""},
		{"npx https://example.com/server.tgz", "", ""},
		{"npx server@npm:other@1", "", ""},
		{"npm exec -y server", "server", "exec -y server@1.2.3"},
		{"npm x server", "server", "x server@1.2.3"},
		{"npm run server", "", ""},
		{"bunx server", "server", "server@1.2.3"},
		{"bun x server", "server", "x server@1.2.3"},
		{"pnpm dlx server", "server", "dlx server@1.2.3"},
		{"pnpm --package=server dlx cmd", "", ""},
		{"uvx mcp-server", "mcp-server", "mcp-server==1.2.3"},
		{"uvx mcp-server@latest", "mcp-server@latest", "mcp-server==1.2.3"},
		{"uvx -p 3.12 mcp-server[cli]>=1,<2 --x", "mcp-server[cli]>=1,<2", "-p 3.12 mcp-server[cli]==1.2.3 --x"},
		{"uvx --from mcp-server cmd", "mcp-server", "--from mcp-server==1.2.3 cmd"},
		{"uvx --from=mcp-server --with more cmd", "mcp-server", "--from=mcp-server==1.2.3 --with more cmd"},
		{"uvx --from git+https://example.com/x cmd", "", ""},
		{"uvx --from ./x cmd", "", ""},
		{"uv tool run mcp-server", "mcp-server", "tool run mcp-server==1.2.3"},
		{"uv run server.py", "", ""},
		{"pipx run mcp-server", "mcp-server", "run mcp-server==1.2.3"},
		{"pipx run --spec mcp-server cmd", "mcp-server", "run --spec mcp-server==1.2.3 cmd"},
		{"docker run -i --rm -e TOKEN ghcr.io/x/server", "ghcr.io/x/server", "run -i --rm -e TOKEN ghcr.io/x/server@" + digest},
		{"docker run -ie TOKEN --name s localhost:5000/x:1.2 --y", "localhost:5000/x:1.2", "run -ie TOKEN --name s localhost:5000/x:1.2@" + digest + " --y"},
		{"docker run -eTOKEN -p8080:80 server:latest", "server:latest", "run -eTOKEN -p8080:80 server@" + digest},
		{"podman container run --env=A=b server", "server", "container run --env=A=b server@" + digest},
		{"podman run -i --rm --tls-verify --read-only --read-only-tmpfs server", "server", "run -i --rm --tls-verify --read-only --read-only-tmpfs server@" + digest},
		{"podman run --no-hosts --no-hostname --env-host server x", "server", "run --no-hosts --no-hostname --env-host server@" + digest + " x"},
		{"podman run --http-proxy --passwd --unsetenv-all server x", "server", "run --http-proxy --passwd --unsetenv-all server@" + digest + " x"},
		{"podman run --unsetenv PATH --systemd always server x", "server", "run --unsetenv PATH --systemd always server@" + digest + " x"},
		{"podman run -i --rootfs tree cmd", "", ""},
		{"podman run --rootfs=true -i tree", "", ""},
		{"docker run -i -- server:1 -x", "server:1", "run -i -- server:1@" + digest + " -x"},
		{"docker exec -i server cmd", "", ""},
		{"docker run -i", "", ""},
		{"node server.js", "", ""},
		{"", "", ""},
	} {
		words := strings.Split(tt.command, " ")
		p, found := Find(words[0], words[1:])
		if found != (tt.spec != "") {
			t.Errorf("%s: found %t", tt.command, found)
			continue
		}
		if !found {
			continue
		}
		if got := p.Spec(); got != tt.spec {
			t.Errorf("%s: found %q, want %q", tt.command, got, tt.spec)
		}
		version := "1.2.3"
		if p.Kind == Image {
			version = digest
		}
		if p.IsExact() {
			t.Errorf("%s: exact", tt.command)
		}
		words[1+p.Index] = p.Argument(version)
		if got := strings.Join(words[1:], " "); got != tt.pinned {
			t.Errorf("%s: pinned %q, want %q", tt.command, got, tt.pinned)
		}
		// What is pinned is found again, and exact.
		again, found := Find(words[0], words[1:])
		if !found || !again.IsExact() || again.IsFloating() || again.Name != p.Name || again.Extras != p.Extras || again.Index != p.Index {
			t.Errorf("%s: pinned it is %+v", tt.command, again)
		}
	}
}

func TestIsExact(t *testing.T) {
	for _, tt := range []struct {
		command         string
		exact, floating bool
	}{
		{"npx x", false, true},
		{"npx x@latest", false, true},
		{"npx x@next", false, false},
		{"npx x@1", false, false},
		{"npx x@~1.2.3", false, false},
		{"npx x@1.2.3", true, false},
		{"npx x@1.2.3-beta.1", true, false},
		{"uvx x@1.2", true, false},
		{"uvx x==2026.10.19", true, false},
		{"uvx x==1.*", false, false},
		{"uvx x>=1", false, false},
		{"uvx x~=1.2", false, false},
		{"uvx x!=1.2", false, false},
		{"docker run x:1.2.3", false, true},
		{"docker run x@sha256:00", true, false},
	} {
		words := strings.Split(tt.command, " ")
		p, found := Find(words[0], words[1:])
		if !found || p.IsExact() != tt.exact || p.IsFloating() != tt.floating {
			t.Errorf("%s: %+v, exact %t, floating %t", tt.command, p, p.IsExact(), p.IsFloating())
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("npx -y @x/server@1.2.3")
	f.Add("docker run -ie A x:1@sha256:00")
	f.Add("uvx --from=x[a]==1 y")
	f.Fuzz(func(t *testing.T, command string) {
		words := strings.Split(command, " ")
		p, found := Find(words[0], words[1:])
		if !found {
			return
		}
		words[1+p.Index] = p.Argument("1.2.3")
		if p.Kind == Image {
			words[1+p.Index] = p.Argument("sha256:00")
		}
		again, found := Find(words[0], words[1:])
		if !found || again.Name != p.Name || !again.IsExact() {
			t.Errorf("%q: %+v, and pinned %+v", command, p, again)
		}
	})
}
