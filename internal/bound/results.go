// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// MinResult is the smallest size to which a result may be cut, in bytes.
const MinResult = 4 << 10

const (
	// noteRoom is the room in a result for the text about what is missing, and for the link to it.
	noteRoom = 1 << 10

	// linkRoom is the room for the link to a block, and maxLinks how many blocks behind the text are linked.
	linkRoom = 512
	maxLinks = 16

	// maxMediaType is the length of the longest media type that is copied into a link.
	maxMediaType = 128
)

// Content is the content of a result of a tool, to be read in pieces. An offset in it counts the bytes of
// the texts before it, in UTF-8, and one for each block that is not text. The texts are those of text
// blocks and of embedded resources, and the JSON text of structuredContent.
//
// A Content is immutable, and its methods may be called concurrently.
type Content struct {
	parts []part
	size  int64
	bytes int64
}

// part is a text or a block of a Content.
type part struct {
	at    int64 // its offset
	text  keptText
	block []byte // the JSON text of a block, or nil for a text
	media string
}

func (p *part) width() int64 { return max(1, int64(p.text.size)) }

// Size returns the offset of the end.
func (c *Content) Size() int64 { return c.size }

// Bytes returns the size of the Content in memory.
func (c *Content) Bytes() int64 { return c.bytes }

// partBytes is the size of a part in memory, apart from its text.
const partBytes = 80

// add adds a part. The caller gives up its text or block.
func (c *Content) add(p part) {
	p.at = c.size
	c.parts = append(c.parts, p)
	c.size += p.width()
	c.bytes += p.text.bytes() + int64(len(p.block)+len(p.media)) + partBytes
}

// addText adds the text of a JSON string. It reports false for any other value.
func (c *Content) addText(raw []byte, media string) bool {
	if len(raw) == 0 || raw[0] != '"' {
		return false
	}
	text, _ := jsonscan.Unescape(make([]byte, 0, len(raw)), raw[1:len(raw)-1])
	if len(text) == 0 {
		return true
	}
	c.add(part{text: keep(text), media: media})
	return true
}

// blockText returns the text of a content block as JSON, and its media type. Without a text it
// returns nil.
func blockText(block []byte) (raw []byte, media string) {
	for name, value := range jsonscan.Members(block) {
		switch {
		case name == "text" && raw == nil && value[0] == '"':
			raw = value
		case name == "resource" && raw == nil:
			for name, value := range jsonscan.Members(value) {
				switch {
				case name == "text" && raw == nil && value[0] == '"':
					raw = value
				case name == "mimeType":
					media = mediaType(value)
				}
			}
		case name == "type" && string(value) != `"text"` && string(value) != `"resource"`:
			return nil, ""
		}
	}
	return raw, media
}

// withText returns a content block with another text.
func withText(block, text []byte) []byte {
	done := false
	put := func(name string, value []byte) []byte {
		if name != "text" || value[0] != '"' {
			return value
		}
		if done {
			return nil // a second one would be too large
		}
		done = true
		return text
	}
	return jsonscan.RewriteMembers(block, func(name string, value []byte) []byte {
		if name == "resource" && !done {
			return jsonscan.RewriteMembers(value, put)
		}
		return put(name, value)
	})
}

// addBlock adds a content block.
func (c *Content) addBlock(block []byte) {
	raw, media := blockText(block)
	if c.addText(raw, media) {
		return
	}
	media = "application/json"
	if b, ok := binaryOf(block); ok {
		media = b.media
	}
	c.add(part{block: bytes.Clone(block), media: media})
}

// binary is a block with binary data.
type binary struct {
	kind  string // image, audio or resource
	data  []byte // a JSON string
	media string // or "", if it is not known or not a media type
}

// binaryOf returns what a block with binary data has. It reports false for other blocks.
func binaryOf(block []byte) (b binary, ok bool) {
	for name, value := range jsonscan.Members(block) {
		switch name {
		case "type":
			b.kind, _ = jsonscan.DecodeText(value)
		case "data":
			b.data = value
		case "mimeType":
			b.media = mediaType(value)
		case "resource":
			for name, value := range jsonscan.Members(value) {
				switch name {
				case "blob":
					b.data = value
				case "mimeType":
					b.media = mediaType(value)
				}
			}
		}
	}
	return b, (b.kind == "image" || b.kind == "audio" || b.kind == "resource") && len(b.data) > 0 && b.data[0] == '"'
}

// mediaType returns the text of a member, or "" if it is not a media type.
func mediaType(raw []byte) string {
	text, _ := jsonscan.DecodeText(raw)
	isForeign := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if len(text) > maxMediaType || strings.ContainsFunc(text, isForeign) {
		return ""
	}
	return text
}

// size returns the number of bytes that the data encodes in base64.
func (b *binary) size() int { return (len(b.data) - len(`""`)) * 3 / 4 }

// appendURI appends the URI of a piece as a JSON string. length is 0 for all that follows.
func appendURI(dst []byte, uri string, offset, length int64) []byte {
	text := uri + "?offset=" + strconv.FormatInt(offset, 10)
	if length > 0 {
		text += "&length=" + strconv.FormatInt(length, 10)
	}
	return jsonscan.AppendString(dst, text)
}

// appendLink appends a link to a block.
func (p *part) appendLink(dst []byte, uri string) []byte {
	dst = appendURI(append(dst, `{"type":"resource_link","uri":`...), uri, p.at, 1)
	b, ok := binaryOf(p.block)
	if !ok {
		return append(dst, `,"name":"block","mimeType":"application/json"}`...)
	}
	dst = append(append(append(dst, `,"name":"`...), b.kind...), '"')
	if b.media != "" {
		dst = append(append(append(dst, `,"mimeType":"`...), b.media...), '"')
	}
	dst = strconv.AppendInt(append(dst, `,"size":`...), int64(b.size()), 10)
	return append(dst, '}')
}

// Room returns the room for blocks in a result with a text about the rest, in bytes.
func Room(most int64) int { return int(max(most, MinResult)) - noteRoom }

// A Cut is how a result is cut.
type Cut struct {
	// Most is how large the content may be, in bytes; at least MinResult.
	Most int64

	// AsError replaces the result by an error that has none of it.
	AsError bool

	// Marked is for a result that [Results.Apply] has marked. The text that is cut ends as it does.
	Marked bool

	// Keep keeps the Content, and returns the URI under which it can be read. If it returns "", nothing
	// can be read. It is called once if the result is cut, and otherwise not.
	Keep func(*Content) (uri string)

	// Note returns the text about what is missing: everything from an offset on, if that is not the end,
	// and otherwise only the blocks that are linked.
	Note func(from int64, of *Content) string
}

// Apply returns a result of a tool with at most as much content as is allowed, a text about what is
// missing, and a link to it. raw is the JSON text of the result, which was parsed before; it is not
// changed. A result of that size or less is returned as it is. Members other than content and
// structuredContent do not count, and are kept.
func (c *Cut) Apply(raw []byte) []byte {
	if int64(len(raw)) <= c.Most {
		return raw
	}
	var blocks, structured []byte
	for name, value := range jsonscan.Members(raw) {
		switch {
		case name == "content" && blocks == nil:
			blocks = value
		case name == "structuredContent" && structured == nil:
			structured = value
		}
	}
	n := int64(len(structured))
	for block := range jsonscan.Elements(blocks) {
		n += int64(len(block) + len(","))
	}
	if n <= c.Most {
		return raw
	}
	w := &cutter{Cut: c, whole: new(Content), room: Room(c.Most)}
	if c.AsError || int64(len(structured)) > c.Most/4 {
		w.cutsStructured = true
	} else {
		w.room -= len(structured)
	}
	w.read(blocks, structured)
	return w.compose(raw, w.content())
}

// cutter is one use of a Cut.
type cutter struct {
	*Cut

	whole          *Content // on its own, since it is kept
	blocks         []cutBlock
	cutsStructured bool
	end            int64 // of the blocks
	room           int
	links          int // that there is room for, besides room
}

// cutBlock is a block of the result that is cut.
type cutBlock struct {
	raw  []byte
	part int // its index, or -1 for an empty text
}

// read reads the whole content.
func (w *cutter) read(blocks, structured []byte) {
	for raw := range jsonscan.Elements(blocks) {
		before := len(w.whole.parts)
		w.whole.addBlock(raw)
		b := cutBlock{raw, before}
		if len(w.whole.parts) == before {
			b.part = -1
		} else if w.whole.parts[before].block != nil {
			w.links++
		}
		w.blocks = append(w.blocks, b)
	}
	w.links = min(w.links, maxLinks, w.room/4/linkRoom)
	w.room -= w.links * linkRoom
	if w.end = w.whole.size; w.cutsStructured && len(structured) > 0 {
		w.whole.add(part{text: keep(bytes.Clone(structured)), media: "application/json"})
	}
}

// content returns the content of the result.
func (w *cutter) content() []byte {
	uri := w.Keep(w.whole)
	out, from := []byte{'['}, int64(0)
	if !w.AsError {
		out, from = w.begin(out, uri)
	}
	out = jsonscan.AppendString(append(out, `{"type":"text","text":`...), w.Note(from, w.whole))
	out = append(out, '}')
	if uri != "" && from < w.whole.size {
		out = appendURI(append(out, `,{"type":"resource_link","uri":`...), uri, from, 0)
		out = append(out, `,"name":"the rest of the result"}`...)
	}
	return append(out, ']')
}

// begin appends the beginning of the content, and returns the offset of its end.
func (w *cutter) begin(out []byte, uri string) ([]byte, int64) {
	from := int64(-1) // not yet
	for _, b := range w.blocks {
		if fits := len(b.raw)+len(",") <= w.room; from < 0 && fits {
			out = append(append(out, b.raw...), ',')
			w.room -= len(b.raw) + len(",")
			continue
		} else if b.part < 0 {
			continue
		}
		p := &w.whole.parts[b.part]
		switch {
		case p.block != nil && w.links > 0 && uri != "":
			w.links--
			out = append(p.appendLink(out, uri), ',')
		case from >= 0:
		case p.block != nil:
			from = p.at
		default:
			from = p.at
			raw, _ := blockText(b.raw)
			var end []byte
			if w.Marked {
				end = endOfMark(&p.text)
			}
			text := p.text.slice(0, min(p.text.size-len(end), w.room+utf8.UTFMax))
			n := fit(text, w.room-(len(b.raw)-len(raw))-len(`"",`)-len(jsonscan.AppendString(nil, string(end))))
			if short := withText(b.raw, jsonscan.AppendString(nil, string(text[:n])+string(end))); n > 0 && len(short) <= w.room {
				out = append(append(out, short...), ',')
				from += int64(n)
			}
		}
	}
	if from < 0 {
		from = w.end
	}
	return out, from
}

// compose returns the result with other content.
func (w *cutter) compose(raw, content []byte) []byte {
	put := false
	out := jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		switch {
		case name == "content":
			if put {
				return nil
			}
			put = true
			return content
		case name == "structuredContent" && w.cutsStructured, name == "isError" && w.AsError:
			return nil
		default:
			return value
		}
	})
	rest := bytes.TrimSpace(out[1:])
	members := []byte{'{'}
	if !put {
		members = append(append(append(members, `"content":`...), content...), ',')
	}
	if w.AsError {
		members = append(members, `"isError":true,`...)
	}
	if rest[0] == '}' {
		members = bytes.TrimSuffix(members, []byte{','})
	}
	return append(members, rest...)
}

// fit returns how many bytes of a text take at most room bytes in a JSON string. They end between two
// characters, and if possible after a line.
func fit(text []byte, room int) int {
	n := 0
	for n < len(text) {
		cost := 1
		switch c := text[n]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			cost = 2
		case c < ' ':
			cost = len(`\u0000`)
		}
		if room -= cost; room < 0 {
			break
		}
		n++
	}
	if n = runeStart(text, n); n == len(text) {
		return n
	}
	if line := bytes.LastIndexByte(text[n-n/4:n], '\n'); line >= 0 {
		return n - n/4 + line + 1
	}
	return n
}

// runeStart returns the start of the character at an offset.
func runeStart(text []byte, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// Blocks returns content blocks with at most length bytes from an offset on, as the elements of a JSON
// array of at most room bytes, and the offset of their end. A block that is not text is linked, unless
// it is asked for alone and there is room for it. An offset within a character counts as that of the
// character. The offset is at most Size, and length above zero. If server is not empty, each text is marked
// as that of the server.
func (c *Content) Blocks(from, length int64, room int, uri, server string) (blocks []byte, to int64) {
	var begin, end string
	if server != "" {
		begin, end = newMark(server)
	}
	return c.take(from, length, room, func(dst []byte, p *part, _ int64, text []byte) []byte {
		switch {
		case text != nil:
			dst = jsonscan.AppendString(append(dst, `{"type":"text","text":`...), begin+string(text)+end)
			return append(dst, '}')
		case length == 1 && p.at == from && len(p.block) <= room:
			return append(dst, p.block...)
		default:
			return p.appendLink(dst, uri)
		}
	})
}

// Contents is Blocks for the contents of a resource, each with its own URI. A block that is not text is
// there as a whole, whatever its size, if it is the first, and otherwise what is before it.
func (c *Content) Contents(from, length int64, room int, uri string) (contents []byte, to int64) {
	if i := c.indexOf(from); i < len(c.parts) && c.parts[i].block != nil {
		p := &c.parts[i]
		return p.appendContents(nil, uri), p.at + 1
	}
	return c.take(from, length, room, func(dst []byte, p *part, at int64, text []byte) []byte {
		if text == nil {
			return nil
		}
		dst = appendURI(append(dst, `{"uri":`...), uri, at, int64(len(text)))
		dst = jsonscan.AppendString(append(dst, `,"mimeType":`...), cmp.Or(p.media, "text/plain"))
		return append(jsonscan.AppendString(append(dst, `,"text":`...), string(text)), '}')
	})
}

// appendContents appends a block as the contents of a resource.
func (p *part) appendContents(dst []byte, uri string) []byte {
	dst = appendURI(append(dst, `{"uri":`...), uri, p.at, 1)
	if p.media != "" {
		dst = jsonscan.AppendString(append(dst, `,"mimeType":`...), p.media)
	}
	if b, ok := binaryOf(p.block); ok {
		return append(append(append(dst, `,"blob":`...), b.data...), '}')
	}
	return append(jsonscan.AppendString(append(dst, `,"text":`...), string(p.block)), '}')
}

// indexOf returns the index of the part with an offset, or the number of parts for the end.
func (c *Content) indexOf(offset int64) int {
	i, found := slices.BinarySearchFunc(c.parts, offset, func(p part, offset int64) int { return cmp.Compare(p.at, offset) })
	if found || offset >= c.size {
		return i
	}
	return i - 1
}

// take appends parts from an offset on, and returns the offset of their end. add appends a text, or if
// that is nil, a block; it returns nil to end before it.
func (c *Content) take(from, length int64, room int, add func(dst []byte, p *part, at int64, text []byte) []byte) (out []byte, to int64) {
	to = from
	for i := c.indexOf(from); i < len(c.parts) && length > 0; i++ {
		p := &c.parts[i]
		left, begin := room-len(out)-len(","), 0
		var text []byte
		if p.block == nil {
			text, begin = p.piece(int(to-p.at), length, left-textRoom)
			if len(text) == 0 {
				break
			}
		}
		next := add(nil, p, p.at+int64(begin), text)
		if next == nil || text == nil && out != nil && len(next) > left {
			break
		}
		if out != nil {
			out = append(out, ',')
		}
		out = append(out, next...)
		width := max(1, int64(len(text)))
		to, length = p.at+int64(begin)+width, length-width
		if to < p.at+p.width() {
			break
		}
	}
	return out, to
}

// piece returns at most length bytes of the text from an offset on, which take at most room bytes in a JSON
// string, and the start of the character at the offset, which is where they begin.
func (p *part) piece(offset int, length int64, room int) (text []byte, begin int) {
	// With a character more on both sides, to see where they begin and end.
	low := max(0, offset-utf8.UTFMax)
	high := offset + utf8.UTFMax + int(min(length, int64(max(room, 0)), int64(p.text.size-offset)))
	text = p.text.slice(low, min(high, p.text.size))
	begin = runeStart(text, offset-low)
	text, begin = text[begin:], begin+low
	if length < int64(len(text)) {
		_, first := utf8.DecodeRune(text)
		text = text[:max(runeStart(text, int(length)), first)]
	}
	return text[:fit(text, room)], begin
}

// textRoom is the room for what is around a text.
const textRoom = 512
