// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// pasted reads a text that is not a file: a map of servers, one server, commands of clients,
// or an address. Of a page with blocks of code, the first block with a server is read.
func (r *reader) pasted(data []byte) error {
	text := strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n")
	// Pages show what is added after the last member of a file. A blank keeps the columns.
	if rest := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(rest, ",") {
		text = text[:len(text)-len(rest)] + " " + rest[1:]
	}
	blocks := blocksOf(text)
	if len(blocks) == 0 {
		return r.block(text)
	}
	// A program alone may be one that installs something; other blocks come first.
	slices.SortStableFunc(blocks, func(a, b string) int { return cmp.Compare(startsProgram(a), startsProgram(b)) })
	var first error
	for i, block := range blocks {
		one := &reader{result: &Result{Source: r.src}, src: r.src}
		if err := one.block(block); err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if len(one.result.Servers) == 0 {
			continue
		}
		if r.result = one.result; len(blocks) > i+1 {
			r.note(0, "other blocks of the text are not imported (paste one alone)")
		}
		return nil
	}
	return first
}

// block reads a text, or one block of code of a text.
func (r *reader) block(text string) error {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return errors.New("the text is empty")
	case isAddress(trimmed):
		r.entry(container{dialect: clients.MCPServers}, "", 1, configfile.Node{Kind: configfile.Text, Text: trimmed})
		return nil
	}
	if isCommand(text) {
		return r.commands(text)
	}
	s := syntaxOf("", []byte(text))
	root, err := parse([]byte(text), s)
	if err != nil && s == syntaxJSON {
		// A part of a file: its members, sometimes with brackets of the rest.
		part := strings.TrimSuffix(strings.TrimSpace(text), ",")
		for range 3 {
			if whole, again := parse([]byte("{"+part+"\n}"), s); again == nil {
				root, err = whole, nil
				break
			}
			part = strings.TrimSuffix(strings.TrimSpace(part), "}")
		}
	}
	if err != nil {
		return fmt.Errorf("line %w", err)
	}
	if root.Kind == configfile.Mapping && looksLikeServer(root) {
		name, _ := root.Member("name")
		r.entry(container{dialect: cmp.Or(r.src.Dialect, clients.MCPServers)}, name.Text, root.At.Line, root)
		return nil
	}
	if root.Kind == configfile.Mapping || root.Kind == configfile.List {
		r.file(root)
	}
	return nil
}

// blocksOf returns the blocks of code in a page of Markdown, each on the lines it has there.
func blocksOf(text string) []string {
	var blocks []string
	var block strings.Builder
	inside, number := false, 0
	for line := range strings.Lines(text) {
		number++
		switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case fence && inside:
			blocks = append(blocks, block.String())
			inside = false
		case fence:
			block.Reset()
			block.WriteString(strings.Repeat("\n", number))
			inside = true
		case inside:
			block.WriteString(line)
		}
	}
	if inside { // its end was not copied
		blocks = append(blocks, block.String())
	}
	return blocks
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !strings.ContainsAny(text, " \n\t{")
}

// programs are the programs with which the command of a server usually begins.
func programs() []string {
	return []string{"npx", "uvx", "bunx", "pnpm", "node", "python", "python3", "uv", "docker", "podman", "deno"}
}

// startsProgram returns 1 if a text begins with the name of a program, else 0.
func startsProgram(text string) int {
	if words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(text), "$ ")); len(words) > 0 && slices.Contains(programs(), words[0]) {
		return 1
	}
	return 0
}

// isCommand reports whether a text is a command line, or several.
func isCommand(text string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		return len(words) > 2 && words[1] == "mcp" || len(words) > 1 && (slices.Contains(programs(), words[0]) || words[1] == "--add-mcp")
	}
	return false
}

// commands reads command lines, one on each line. A backslash continues a line.
func (r *reader) commands(text string) error {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\\\r\n", " "), "\\\n", " ")
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := Words(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := r.commandLine(words, number); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// commandLine reads one command: the one with which a client adds a server, or the one that
// starts a server.
func (r *reader) commandLine(words []string, line int) error {
	switch {
	case len(words) > 2 && words[1] == "--add-mcp":
		return r.addJSON("", words[2], line)
	case len(words) > 2 && words[1] == "mcp" && words[2] == "add-json":
		rest := withoutScope(words[3:])
		if len(rest) < 2 {
			return errors.New("add-json needs a name and the server in JSON")
		}
		return r.addJSON(rest[0], rest[1], line)
	case len(words) > 2 && words[1] == "mcp" && words[2] == "add":
		return r.add(words[0], words[3:], line)
	case len(words) > 1 && words[1] == "mcp":
		return fmt.Errorf("%q adds no server", strings.Join(words[:min(3, len(words))], " "))
	}
	r.program("", words, nil, nil, line)
	return nil
}

// withoutScope removes the flag for where a client keeps a server.
func withoutScope(words []string) []string {
	var rest []string
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "-s" || words[i] == "--scope":
			i++
		case strings.HasPrefix(words[i], "--scope="):
		default:
			rest = append(rest, words[i])
		}
	}
	return rest
}

func (r *reader) addJSON(name, text string, line int) error {
	n, err := parse([]byte(text), syntaxJSON)
	if err != nil {
		return fmt.Errorf("the server is no JSON: %w", err)
	}
	if name == "" {
		given, _ := n.Member("name")
		name = given.Text
	}
	r.entry(container{dialect: clients.MCPServers}, name, line, n)
	return nil
}

// program adds a server that is a program.
func (r *reader) program(name string, words []string, env []Pair, settings []configfile.Member, line int) {
	n := configfile.Node{Kind: configfile.Mapping, At: configfile.Position{Line: line, Column: 1}}
	list := configfile.Node{Kind: configfile.List}
	for _, word := range words {
		list.Items = append(list.Items, configfile.Node{Kind: configfile.Text, Text: word})
	}
	add := func(key string, value configfile.Node) {
		n.Members = append(n.Members, configfile.Member{Key: key, At: n.At, Value: value})
	}
	add("command", list)
	add("env", mapping(env))
	n.Members = append(n.Members, settings...)
	r.entry(container{dialect: clients.MCPServers}, name, line, n)
}

func mapping(pairs []Pair) configfile.Node {
	n := configfile.Node{Kind: configfile.Mapping}
	for _, p := range pairs {
		n.Members = append(n.Members, configfile.Member{Key: p.Name, Value: configfile.Node{Kind: configfile.Text, Text: p.Value}})
	}
	return n
}

// add reads the arguments of "CLIENT mcp add".
func (r *reader) add(client string, words []string, line int) error {
	var (
		env, headers []Pair
		rest         []string
		transport    string
		address      string
		settings     []configfile.Member
	)
	at := configfile.Position{Line: line, Column: 1}
	text := func(value string) configfile.Node { return configfile.Node{Kind: configfile.Text, Text: value} }
	set := func(key string, value configfile.Node) {
		settings = append(settings, configfile.Member{Key: key, At: at, Value: value})
	}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			rest = append(rest, words[i+1:]...)
			break
		}
		// The flags after a program are its own.
		if !strings.HasPrefix(word, "-") || len(rest) > 1 && !isAddress(rest[1]) {
			rest = append(rest, word)
			continue
		}
		flag, value, has := strings.Cut(word, "=")
		if !has && !slices.Contains([]string{"--trust", "--no-trust"}, flag) {
			if i++; i == len(words) {
				return fmt.Errorf("%s needs a value", flag)
			}
			value = words[i]
		}
		switch flag {
		case "-e", "--env":
			name, text, ok := strings.Cut(value, "=")
			if !ok {
				return fmt.Errorf("%s needs NAME=value", flag)
			}
			env = append(env, Pair{name, text})
			// It accepts several values.
			for i+1 < len(words) && len(rest) == 1 && isAssignment(words[i+1]) {
				i++
				name, text, _ := strings.Cut(words[i], "=")
				env = append(env, Pair{name, text})
			}
		case "-H", "--header":
			name, text, ok := strings.Cut(value, ":")
			if !ok {
				return fmt.Errorf("%s needs \"NAME: value\"", flag)
			}
			headers = append(headers, Pair{strings.TrimSpace(name), strings.TrimSpace(text)})
		case "-t", "--transport":
			transport = value
		case "--url":
			address = value
		case "--bearer-token-env-var":
			headers = append(headers, Pair{"Authorization", "Bearer ${" + value + "}"})
		case "--include-tools", "--exclude-tools":
			key := map[string]string{"--include-tools": "includeTools", "--exclude-tools": "excludeTools"}[flag]
			list := configfile.Node{Kind: configfile.List}
			for tool := range strings.SplitSeq(value, ",") {
				list.Items = append(list.Items, text(tool))
			}
			set(key, list)
		case "--client-id":
			set("oauth", mapping([]Pair{{"clientId", value}}))
		case "--callback-port":
			set("oauth", mapping([]Pair{{"callbackPort", value}}))
		case "-s", "--scope", "--trust", "--no-trust", "--timeout", "--description":
			// They concern the client.
		default:
			return fmt.Errorf("unknown flag %s of %s mcp add", flag, client)
		}
	}
	if len(rest) == 0 {
		return errors.New("the name of the server is missing")
	}
	name, rest := rest[0], rest[1:]
	if len(rest) > 1 && transport == "" {
		// An address in a variable, with the flags after it.
		if tail := withoutScope(rest[1:]); len(tail) == 2 && (tail[0] == "-t" || tail[0] == "--transport") && (tail[1] == "http" || tail[1] == "sse") {
			transport, rest = tail[1], rest[:1]
		}
	}
	if address == "" && len(rest) == 1 && (isAddress(rest[0]) || transport == "http" || transport == "sse") {
		address = rest[0]
	}
	if address == "" {
		if len(rest) == 0 {
			return fmt.Errorf("%q has neither a command nor an address", name)
		}
		r.program(name, rest, env, settings, line)
		return nil
	}
	set("type", text(transport))
	set("url", text(address))
	set("headers", mapping(headers))
	r.entry(container{dialect: clients.MCPServers}, name, line, configfile.Node{Kind: configfile.Mapping, At: at, Members: settings})
	return nil
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && valid.IsVariable(name)
}

// Words splits a command line into words, as a shell does with quotes and backslashes. Nothing
// is replaced. A backslash before a letter or digit stays: it is one of a path of Windows.
func Words(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inside, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) || quote == 0 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_') {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inside = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if inside {
				words = append(words, word.String())
				word.Reset()
			}
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote has no end")
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}
