// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"errors"
	"fmt"
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
	r := newYAMLReader(data)
	// Tokens are passed to the parser, so that their nesting can be checked before.
	tokens := lexer.Tokenize(string(data))
	if err := r.checkDepth(tokens); err != nil {
		return Node{}, r.syntaxError(err)
	}
	// Repeated keys are reported later, all at once and for both syntaxes.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return Node{}, r.syntaxError(err)
	}
	root, err := r.document(file)
	if err != nil {
		return Node{}, r.syntaxError(err)
	}
	return root, nil
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

// yamlError is an error of this package, at a token.
type yamlError struct {
	At            *token.Token
	Message, Hint string
}

func (e *yamlError) Error() string { return e.Message }

// syntaxError adds the position and a hint to an error of the parser or of this package.
func (r *yamlReader) syntaxError(err error) *SyntaxError {
	if ours, ok := errors.AsType[*yamlError](err); ok {
		return &SyntaxError{At: r.position(ours.At), Message: ours.Message, Hint: ours.Hint}
	}
	// Other errors of the parser would show the text around them.
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
func (r *yamlReader) checkDepth(tokens token.Tokens) error {
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
			return &yamlError{At: tk, Message: errTooDeep.Error()}
		}
	}
	return nil
}

// document returns the only document of a file. Directives before it are permitted.
func (r *yamlReader) document(file *ast.File) (Node, error) {
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		// The parser returns a document for a %YAML line or a comment.
		case doc.Body == nil, doc.Body.Type() == ast.DirectiveType, doc.Body.Type() == ast.CommentType:
			continue
		case body != nil:
			return Node{}, &yamlError{At: doc.Body.GetToken(), Message: "a second document", Hint: "a config is one document"}
		}
		body = doc.Body
	}
	// An empty file is a null value, which is reported for the root.
	if body == nil {
		return Node{At: Position{1, 1}}, nil
	}
	return r.node(body, 0)
}

func (r *yamlReader) node(n ast.Node, depth int) (Node, error) {
	if depth > maxDepth {
		return Node{}, &yamlError{At: n.GetToken(), Message: errTooDeep.Error()}
	}
	at := r.position(n.GetToken())
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n, at, depth)
	case *ast.SequenceNode:
		return r.list(n, at, depth)
	case *ast.NullNode:
		return Node{At: at}, nil
	case *ast.StringNode:
		return Node{At: at, Kind: Text, Text: n.Value}, nil
	case *ast.LiteralNode:
		return Node{At: at, Kind: Text, Text: n.Value.Value}, nil
	case *ast.BoolNode:
		// One spelling: True and TRUE are booleans of YAML, too.
		return Node{At: at, Kind: Bool, Text: fmt.Sprint(n.Value)}, nil
	case *ast.IntegerNode:
		// In decimal: 0x10 is a number like any other.
		return Node{At: at, Kind: Integer, Text: fmt.Sprint(n.Value)}, nil
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return Node{At: at, Kind: Float, Text: n.GetToken().Value}, nil
	default:
		return Node{}, unsupportedYAML(n)
	}
}

// unsupportedYAML returns the error for an unsupported feature of YAML.
func unsupportedYAML(n ast.Node) error {
	what := "this form of YAML"
	switch n.(type) {
	case *ast.AnchorNode:
		what = "an anchor (&)"
	case *ast.AliasNode:
		what = "an alias (*)"
	case *ast.TagNode:
		what = "a tag (!)"
	case *ast.MergeKeyNode:
		what = "a merge key (<<)"
	}
	return &yamlError{At: n.GetToken(), Message: what + " is not supported in a config", Hint: "write the value out"}
}

func (r *yamlReader) list(n *ast.SequenceNode, at Position, depth int) (Node, error) {
	// The position of a list is its first dash or bracket, as in the library.
	list := Node{At: at, Kind: List}
	for _, value := range n.Values {
		item, err := r.node(value, depth+1)
		if err != nil {
			return Node{}, err
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

func (r *yamlReader) mapping(n *ast.MappingNode, at Position, depth int) (Node, error) {
	mapping := Node{At: at, Kind: Mapping}
	for i, value := range n.Values {
		m, err := r.Member(value, depth)
		if err != nil {
			return Node{}, err
		}
		// A mapping begins at its first key.
		if i == 0 && !n.IsFlowStyle {
			mapping.At = m.At // the token of a block mapping is its first colon
		}
		mapping.Members = append(mapping.Members, m)
	}
	return mapping, nil
}

func (r *yamlReader) Member(n *ast.MappingValueNode, depth int) (Member, error) {
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
		return Member{}, &yamlError{At: key.GetToken(), Message: "a key must be a string, not " + name.Kind.String()}
	}
	m := Member{Key: name.Text, At: name.At}
	if name.Kind != Text {
		m.Key = key.GetToken().Value // the source text of a number
	}
	// Each level counts, including keys: parsing both is recursive.
	m.Value, err = r.node(n.Value, depth+1)
	return m, err
}
