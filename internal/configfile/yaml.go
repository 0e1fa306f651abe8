// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML parses one YAML document. Anchors, aliases, merge keys and tags are rejected:
// they move the meaning of a line to another line.
//
// Only the library's syntax tree is used. Its decoding into a Config would lose positions,
// and report only one mistake at a time.
func parseYAML(data []byte) (Node, *SyntaxError) {
	// The scanner counts the line break after a comment twice if it is CRLF. A line break in a
	// value is LF in any case.
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	r := newYAMLReader(data)
	// Tokens are passed to the parser, so that their nesting can be checked before.
	tokens := lexer.Tokenize(string(data))
	if err := r.checkDepth(tokens); err != nil {
		return Node{}, err
	}
	// Repeated keys are reported later, all at once and for both syntaxes.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return Node{}, r.syntaxError(err)
	}
	return r.document(file)
}

// yamlReader builds the tree of a document.
type yamlReader struct {
	lines  []string
	widths []int // of the lines, in characters
}

func newYAMLReader(data []byte) *yamlReader {
	r := &yamlReader{lines: strings.Split(string(data), "\n")}
	for _, line := range r.lines {
		r.widths = append(r.widths, utf8.RuneCountInString(line))
	}
	return r
}

// refuse returns an error of this package, at a token.
func (r *yamlReader) refuse(at *token.Token, message, hint string) *SyntaxError {
	return &SyntaxError{At: r.position(at), Message: message, Hint: hint}
}

// syntaxError adds the position and a hint to an error of the parser.
func (r *yamlReader) syntaxError(err error) *SyntaxError {
	// Other errors would show the text around them.
	found := &SyntaxError{At: Position{1, 1}, Message: "not YAML"}
	if theirs, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		found.At, found.Message = r.position(theirs.Token), "not YAML: "+cleanMessage(theirs.Message)
	}
	if r.indentedByTab(found.At) {
		found.Message, found.Hint = "not YAML: a tab indents this line", "indent with spaces"
	}
	return found
}

// cleanMessage makes a message of the parser one line, and removes quotes of the text, which
// may be a part of a secret.
func cleanMessage(message string) string {
	if text, _, quotes := strings.Cut(message, `"`); quotes {
		message = text + "..."
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(message, "\t", `\t`)), " ")
}

// indentedByTab reports whether a tab is in the indentation of a line.
func (r *yamlReader) indentedByTab(at Position) bool {
	// Checked in the text, because the parser reports tabs as unexpected characters.
	line := r.lines[at.Line-1]
	return strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t")
}

// position returns the position of a token. The scanner is slightly wrong for rare texts, so
// the position is limited to the file.
func (r *yamlReader) position(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{1, 1}
	}
	line := min(max(tk.Position.Line, 1), len(r.lines))
	return Position{Line: line, Column: min(max(tk.Position.Column, 1), r.widths[line-1]+1)}
}

// checkDepth rejects nesting so deep that the recursive parser would run out of stack.
// Brackets nest across lines, dashes and question marks on one line. Indentation needs text
// that grows with the square of the depth, and is bounded by the size of the file.
func (r *yamlReader) checkDepth(tokens token.Tokens) *SyntaxError {
	brackets, marks, line := 0, 0, 0
	for _, tk := range tokens {
		// Marks nest on one line only.
		if tk.Position.Line != line {
			line, marks = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			marks++
		default:
		}
		if brackets > maxDepth || marks > maxDepth {
			return r.refuse(tk, errTooDeep.Error(), "")
		}
	}
	return nil
}

// document returns the only document of a file. Directives before it are permitted.
func (r *yamlReader) document(file *ast.File) (Node, *SyntaxError) {
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		// The parser returns a document for a %YAML line or a comment.
		case doc.Body == nil, doc.Body.Type() == ast.DirectiveType, doc.Body.Type() == ast.CommentType:
			continue
		case body != nil:
			return Node{}, r.refuse(doc.Body.GetToken(), "a second document", "a config is one document")
		}
		body = doc.Body
	}
	// An empty file is a null value, which is reported for the root.
	if body == nil {
		return Node{At: Position{1, 1}}, nil
	}
	return r.node(body, 0)
}

func (r *yamlReader) node(n ast.Node, depth int) (Node, *SyntaxError) {
	if depth > maxDepth {
		return Node{}, r.refuse(n.GetToken(), errTooDeep.Error(), "")
	}
	found := Node{At: r.position(n.GetToken())}
	unsupported := ""
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		found.Kind, found.Text = Text, n.Value
	case *ast.LiteralNode:
		found.Kind, found.Text = Text, n.Value.Value
	case *ast.BoolNode:
		// One spelling: True and TRUE are booleans of YAML, too.
		found.Kind, found.Text = Bool, strconv.FormatBool(n.Value)
	case *ast.IntegerNode:
		// In decimal: 0x10 is a number like any other.
		found.Kind, found.Text = Integer, fmt.Sprint(n.Value)
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		found.Kind, found.Text = Float, n.GetToken().Value
	case *ast.SequenceNode:
		found.Kind = List // its position is the first dash or bracket
		for _, value := range n.Values {
			if n.IsFlowStyle {
				value = unsplit(value)
			}
			item, err := r.node(value, depth+1)
			if err != nil {
				return Node{}, err
			}
			found.Items = append(found.Items, item)
		}
	case *ast.MappingNode:
		found.Kind = Mapping
		for _, value := range n.Values {
			m, err := r.member(value, depth)
			if err != nil {
				return Node{}, err
			}
			found.Members = append(found.Members, m)
		}
		// The token of a block mapping is its first colon, but it begins at its first key.
		if !n.IsFlowStyle && len(found.Members) > 0 {
			found.At = found.Members[0].At
		}
	case *ast.AnchorNode:
		unsupported = "an anchor (&)"
	case *ast.AliasNode:
		unsupported = "an alias (*)"
	case *ast.TagNode:
		unsupported = "a tag (!)"
	case *ast.MergeKeyNode:
		unsupported = "a merge key (<<)"
	default:
		unsupported = "this form of YAML"
	}
	if unsupported != "" {
		return Node{}, r.refuse(n.GetToken(), unsupported+" is not supported in a config", "write the value out")
	}
	return found, nil
}

// unsplit returns an element of a list in brackets as one text if it is one, such as a:b: a
// colon separates a key only before a space (YAML 1.2.2, section 7.3.3). Inside braces, the
// scanner splits it.
func unsplit(element ast.Node) ast.Node {
	m, ok := element.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return element
	}
	pair := m.Values[0]
	key, isText := pair.Key.(*ast.StringNode)
	value, alsoText := pair.Value.(*ast.StringNode)
	if !isText || !alsoText || key.Token.Type != token.StringType || value.Token.Type != token.StringType {
		return element
	}
	if value.Token.Position.Line != key.Token.Position.Line || value.Token.Position.Column != key.Token.Position.Column+utf8.RuneCountInString(key.Value)+len(":") {
		return element
	}
	whole := *key
	whole.Value = key.Value + ":" + value.Value
	return &whole
}

func (r *yamlReader) member(n *ast.MappingValueNode, depth int) (Member, *SyntaxError) {
	var key ast.Node = n.Key
	// A key with a question mark, which YAML needs for complex keys.
	if explicit, ok := key.(*ast.MappingKeyNode); ok {
		key = explicit.Value
	}
	name, err := r.node(key, depth+1)
	if err != nil {
		return Member{}, err
	}
	// YAML permits any key. Such a key is most often the {{ }} of a template.
	if name.Kind == List || name.Kind == Mapping || name.Kind == Null {
		return Member{}, r.refuse(key.GetToken(), "a key must be a string, not "+name.Kind.String(), "")
	}
	m := Member{Key: name.Text, At: name.At}
	if name.Kind != Text {
		m.Key = key.GetToken().Value // the source text of a number
	}
	// Each level counts, including keys: parsing both is recursive.
	m.Value, err = r.node(n.Value, depth+1)
	return m, err
}
