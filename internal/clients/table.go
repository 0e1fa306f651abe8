// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

// read returns a Source that was read on the day on which the table was made.
func read(url string) Source { return Source{URL: url, Day: "2026-11-25"} }

// user and project return a File for all systems.
func user(path string, source Source) File { return File{Scope: User, Path: path, Source: source} }

func project(path string, source Source) File {
	return File{Scope: Project, Path: path, Source: source}
}

// on restricts a File to some systems.
func (f File) on(systems ...System) File {
	f.On = systems
	return f
}

// movedBy adds the variable that replaces the folder of a File.
func (f File) movedBy(env string) File {
	f.Env = env
	return f
}

// replacedBy adds the variable that replaces the whole path of a File.
func (f File) replacedBy(env string) File {
	f.Env, f.EnvIsFile = env, true
	return f
}

// onlyMade marks a File that only its client may make.
func (f File) onlyMade() File {
	f.Reserved = true
	return f
}

// former marks a File that its client has given up.
func (f File) former() File {
	f.Former = true
	return f
}

// off returns how an entry is disabled, read on the day after the rest of the table.
func off(key string, value bool, url string) Fact[Switch] {
	return Fact[Switch]{Switch{key, value}, Source{URL: url, Day: "2026-11-26"}}
}

func speaks(source Source, transports ...Transport) Fact[[]Transport] {
	return Fact[[]Transport]{transports, source}
}

func needs(effect Effect, source Source) Fact[Effect] { return Fact[Effect]{effect, source} }

// All returns the table.
func All() []Client {
	const (
		servers     = "mcpServers"
		vsExtension = "<config>/Code/User/globalStorage/"
	)
	var (
		claudeDesktop = read("https://raw.githubusercontent.com/confluentinc/mcp-confluent/master/docs/configuring-claude-desktop.md")
		claudeCode    = read("https://code.claude.com/docs/en/mcp")
		editing       = read("https://github.com/realBritakee/modhelper-mcp/wiki/IDE-Configuration")
		cursor        = read("https://cursor.com/docs/mcp")
		vscode        = read("https://code.visualstudio.com/docs/agents/reference/mcp-configuration.md")
		windsurf      = read("https://docs.windsurf.com/zh/windsurf/cascade/mcp.md")
		gemini        = read("https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md")
		codex         = read("https://www.mintlify.com/openai/codex/configuration/mcp-servers")
		zed           = read("https://github.com/zed-industries/zed/blob/main/docs/src/ai/mcp.md")
		cline         = read("https://docs.cline.bot/mcp/adding-and-configuring-servers.md")
		clineCLI      = read("https://www.developersdigest.tech/mcp-servers/clients/cline")
		extensions    = read("https://gist.github.com/danielrosehill/ec279319741ed74143052ddce9132b1e")
		continueDocs  = read("https://raw.githubusercontent.com/continuedev/continue/main/docs/customize/deep-dives/mcp.mdx")
		goose         = read("https://raw.githubusercontent.com/aaif-goose/goose/main/documentation/docs/guides/config-files.md")
		opencode      = read("https://opencode.ai/v2/docs/mcp-servers/")
		lmStudio      = read("https://raw.githubusercontent.com/lmstudio-ai/docs/main/0_app/2_mcp/index.mdx")
		lmStudioOld   = read("https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1371")
		kiro          = read("https://kiro.dev/docs/mcp/configuration")
		junie         = read("https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html")
		crush         = read("https://mintlify.com/charmbracelet/crush/configuration/mcp")
		crushHome     = read("https://nix-community.github.io/home-manager/options/home-manager/programs/crush.html")
		amp           = read("https://www.developersdigest.tech/reference/amp/config-files")
		amazonQ       = read("https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/qdev-mcp.html")
		amazonQFile   = read("https://dev.to/aws/configuring-model-context-protocol-mcp-with-amazon-q-cli-e80")
		roo           = read("https://docs.roocode.com/features/mcp/using-mcp-in-roo")
		unknown       = Source{}
	)
	return []Client{
		{
			ID: "claude-desktop", Name: "Claude Desktop", Dialect: MCPServers, Key: servers,
			Files: []File{
				user("<config>/Claude/claude_desktop_config.json", claudeDesktop).on(MacOS, Windows),
				// There is no official build for Linux. Others use this place.
				user("<config>/Claude/claude_desktop_config.json", unknown).on(Linux),
			},
			// Remote servers are not in the file, but in the account.
			Transports: speaks(claudeDesktop, Stdio),
			After:      needs(Restart, claudeDesktop),
		},
		{
			ID: "claude-code", Name: "Claude Code", Dialect: Claude, Key: servers,
			Files: []File{
				user("~/.claude.json", claudeCode).movedBy("CLAUDE_CONFIG_DIR").onlyMade(),
				project(".mcp.json", claudeCode),
			},
			Transports: speaks(claudeCode, Stdio, HTTP, SSE),
			After:      needs(Restart, editing),
		},
		{
			ID: "cursor", Name: "Cursor", Dialect: Cursor, Key: servers,
			Files:      []File{user("~/.cursor/mcp.json", cursor), project(".cursor/mcp.json", cursor)},
			Transports: speaks(cursor, Stdio, HTTP, SSE),
			After:      needs(Restart, editing),
		},
		{
			ID: "vscode", Name: "VS Code", Dialect: VSCode, Key: "servers",
			Files: []File{
				user("<config>/Code/User/mcp.json", read("https://glama.ai/mcp/servers/@NgoTaiCo/mcp-codebase-index/blob/341495a9fd820073fa3a658772b5d664f2af5983/config/README.md")),
				// Until 2025 the servers were in the settings.
				user("<config>/Code/User/settings.json", read("https://github.com/docker/docs/commit/3712a398214974aa7299d69baf4309d7175c9b84")).former(),
				project(".vscode/mcp.json", vscode),
			},
			Transports: speaks(vscode, Stdio, HTTP, SSE),
			After:      needs(Reload, read("https://raw.githubusercontent.com/confluentinc/mcp-confluent/master/docs/configuring-vs-code.md")),
		},
		{
			ID: "windsurf", Name: "Windsurf", Dialect: Windsurf, Key: servers,
			Files: []File{
				user("~/.codeium/windsurf/mcp_config.json", windsurf),
				// The plugin for the editors of JetBrains.
				user("~/.codeium/mcp_config.json", read("https://docs.windsurf.com/zh/plugins/cascade/mcp.md")),
			},
			Transports: speaks(windsurf, Stdio, HTTP, SSE),
			After:      needs(Reload, read("https://docs.windsurf.com/zh/plugins/cascade/mcp.md")),
		},
		{
			ID: "gemini", Name: "Gemini CLI", Dialect: Gemini, Key: servers,
			Files:      []File{user("~/.gemini/settings.json", gemini), project(".gemini/settings.json", gemini)},
			Transports: speaks(gemini, Stdio, HTTP, SSE),
			After:      needs(Restart, read("https://www.mcpbundles.com/guides/gemini-cli")),
		},
		{
			ID: "codex", Name: "Codex", Dialect: Codex, Key: "mcp_servers",
			Files: []File{
				user("~/.codex/config.toml", codex).movedBy("CODEX_HOME"),
				project(".codex/config.toml", read("https://docs.rs/tuff-adapter-codex/0.13.0/tuff_adapter_codex/constant.MCP_CONFIG_RELPATH.html")),
			},
			Transports: speaks(codex, Stdio, HTTP),
			Off:        off("enabled", false, "https://github.com/openai/codex/issues/16439"),
			After:      needs(Restart, read("https://raw.githubusercontent.com/newtalaria/docs/main/mcp/codex.md")),
		},
		{
			ID: "zed", Name: "Zed", Dialect: Zed, Key: "context_servers",
			Files: []File{
				user("<xdg>/zed/settings.json", zed).on(Linux, MacOS),
				user("<config>/Zed/settings.json", unknown).on(Windows),
				project(".zed/settings.json", zed),
			},
			Transports: speaks(read("https://www.developersdigest.tech/mcp-servers/clients/zed"), Stdio, HTTP),
			After:      needs(Nothing, read("https://mixedbread.com/mcp/integrations/zed")),
		},
		{
			ID: "cline", Name: "Cline", Dialect: Cline, Key: servers,
			Files: []File{
				user(vsExtension+"saoudrizwan.claude-dev/settings/cline_mcp_settings.json", extensions),
				user("~/.cline/data/settings/cline_mcp_settings.json", clineCLI).replacedBy("CLINE_MCP_SETTINGS_PATH"),
			},
			Transports: speaks(cline, Stdio, HTTP, SSE),
			Off:        off("disabled", true, "https://www.developersdigest.tech/mcp-servers/clients/cline"),
		},
		{
			ID: "continue", Name: "Continue", Dialect: Continue, Key: servers,
			Files: []File{
				user("~/.continue/config.yaml", continueDocs).onlyMade(),
				user("~/.continue/mcpServers/*", continueDocs),
				project(".continue/config.yaml", continueDocs).onlyMade(),
				project(".continue/mcpServers/*", continueDocs),
			},
			Transports: speaks(continueDocs, Stdio, HTTP, SSE),
		},
		{
			ID: "goose", Name: "goose", Dialect: Goose, Key: "extensions",
			Files: []File{
				user("<xdg>/goose/config.yaml", goose).on(Linux, MacOS).onlyMade(),
				user("<config>/Block/goose/config/config.yaml", goose).on(Windows).onlyMade(),
			},
			Transports: speaks(read("https://www.mintlify.com/block/goose/api/extensions/overview"), Stdio, HTTP),
			Off:        off("enabled", false, "https://www.developersdigest.tech/mcp-servers/clients/goose"),
		},
		{
			ID: "opencode", Name: "OpenCode", Dialect: OpenCode, Key: "mcp",
			Files: []File{
				user("<xdg>/opencode/opencode.json", opencode),
				user("<xdg>/opencode/opencode.jsonc", opencode),
				project("opencode.json", opencode),
				project("opencode.jsonc", opencode),
				project(".opencode/opencode.json", opencode),
				project(".opencode/opencode.jsonc", opencode),
			},
			Transports: speaks(opencode, Stdio, HTTP),
			// In files of version 1, with the servers in "mcp" itself.
			Off: off("enabled", false, "https://opencode.ai/v1/docs/de/mcp-servers.md"),
		},
		{
			ID: "lm-studio", Name: "LM Studio", Dialect: MCPServers, Key: servers,
			Files: []File{
				user("~/.lmstudio/mcp.json", lmStudio),
				user("~/.cache/lm-studio/mcp.json", lmStudioOld).former(),
			},
			Transports: speaks(lmStudio, Stdio, HTTP),
		},
		{
			ID: "kiro", Name: "Kiro", Dialect: Kiro, Key: servers,
			Files:      []File{user("~/.kiro/settings/mcp.json", kiro), project(".kiro/settings/mcp.json", kiro)},
			Transports: speaks(kiro, Stdio, HTTP),
			Off:        off("disabled", true, "https://kiro.dev/docs/mcp/configuration"),
		},
		{
			ID: "junie", Name: "Junie", Dialect: MCPServers, Key: servers,
			Files:      []File{user("~/.junie/mcp/mcp.json", unknown), project(".junie/mcp/mcp.json", read("https://github.com/laravel/boost/pull/995"))},
			Transports: speaks(junie, Stdio),
		},
		{
			ID: "copilot-cli", Name: "GitHub Copilot CLI", Dialect: Copilot, Key: servers,
			Files: []File{
				user("~/.copilot/mcp-config.json", vscode).movedBy("COPILOT_HOME"),
				project(".mcp.json", vscode),
			},
			Transports: speaks(read("https://skills.sh/arisng/github-copilot-fc/copilot-cli-mcp-config"), Stdio, HTTP, SSE),
		},
		{
			// Its newer configuration, crushrc, is a shell script.
			ID: "crush", Name: "Crush", Dialect: Crush, Key: "mcp",
			Files: []File{
				user("<xdg>/crush/crush.json", crushHome),
				project("crush.json", crush),
				project(".crush.json", crush),
			},
			Transports: speaks(crush, Stdio, HTTP, SSE),
			Off:        off("disabled", true, "https://mintlify.com/charmbracelet/crush/configuration/mcp"),
		},
		{
			ID: "amp", Name: "Amp", Dialect: Amp, Key: "amp.mcpServers",
			Files: []File{
				user("~/.config/amp/settings.json", amp),
				user("~/.config/amp/settings.jsonc", amp),
				project(".amp/settings.json", amp),
				project(".amp/settings.jsonc", amp),
			},
			Transports: speaks(amp, Stdio, HTTP),
		},
		{
			ID: "amazon-q", Name: "Amazon Q Developer", Dialect: AmazonQ, Key: servers,
			Files: []File{
				user("~/.aws/amazonq/mcp.json", amazonQFile),
				user("~/.aws/amazonq/agents/default.json", amazonQ).onlyMade(),
				user("~/.aws/amazonq/cli-agents/*.json", amazonQ).onlyMade(),
				project(".amazonq/mcp.json", amazonQFile),
				project(".amazonq/default.json", unknown).onlyMade(),
			},
			Transports: speaks(amazonQ, Stdio, HTTP),
		},
		{
			ID: "roo", Name: "Roo Code", Dialect: Roo, Key: servers,
			Files: []File{
				user(vsExtension+"rooveterinaryinc.roo-cline/settings/mcp_settings.json", extensions),
				project(".roo/mcp.json", roo),
			},
			Transports: speaks(roo, Stdio, HTTP, SSE),
			Ended:      true,
		},
	}
}
