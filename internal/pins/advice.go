// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// Note is advice about a definition, for the person that approves it: a text that is addressed to the model, or that
// names a tool of another server. Honest servers have such texts, too, so that nothing follows from a Note.
type Note struct {
	Path string `json:"path"` // of the text, as a JSON pointer (RFC 6901), or "" for instructions
	Text string `json:"text"` // what it is, and the words, with hidden characters spelt out
}

// maxNotes bounds the notes about one definition, maxQuoted the characters that a note quotes, and maxRead the text of a
// server that is searched, since a text may be made to take long.
const (
	maxNotes  = 5
	maxQuoted = 100
	maxRead   = 512 << 10
)

// Adviser makes the notes about the definitions of all servers. The zero value is ready for use. It is not safe for
// concurrent use.
type Adviser struct {
	servers map[string][]string // with a tool, by the name of the tool
	read    map[string]int      // bytes of text, by server
}

// Add adds the name of a tool, before the first Advise. A name that is also a plain word, such as search, is left out:
// texts have it without meaning a tool.
func (a *Adviser) Add(server, tool string) {
	if !isDistinct(tool) || slices.Contains(a.servers[tool], server) {
		return
	}
	if a.servers == nil {
		a.servers = make(map[string][]string)
	}
	a.servers[tool] = append(a.servers[tool], server)
}

// isDistinct reports whether a name cannot be a plain word: it has a sign, a digit or a capital after its first letter.
func isDistinct(name string) bool {
	const shortest = 4
	_, first := utf8.DecodeRuneInString(name)
	return len(name) >= shortest && strings.ContainsFunc(name[first:], func(r rune) bool { return !unicode.IsLower(r) })
}

// others returns the servers with a tool of that name, if the server does not have it itself.
func (a *Adviser) others(server, tool string) []string {
	if owner, own, ok := strings.Cut(tool, "__"); ok && owner != server && slices.Contains(a.servers[own], owner) {
		return []string{owner} // as clients are offered it
	}
	servers := a.servers[tool]
	if slices.Contains(servers, server) {
		return nil
	}
	return servers
}

// Advise returns the notes about a definition of a server, at most 5. The definition is valid JSON. Of each server 512 KiB
// of text are searched; a definition with texts after them has a note about that.
func (a *Adviser) Advise(server string, definition []byte) []Note {
	if a.read == nil {
		a.read = make(map[string]int)
	}
	if a.read[server] >= maxRead {
		return []Note{{Text: "it was not searched: its server has more text than 512 KiB"}}
	}
	w := adviceWalk{Adviser: a, server: server}
	w.value("", definition)
	if w.isCut {
		w.add("", "only a part of it was searched: its server has more text than 512 KiB")
	}
	return w.notes
}

// adviceWalk collects the notes about a definition.
type adviceWalk struct {
	*Adviser

	server string
	notes  []Note
	isCut  bool // a text was not searched
}

func (w *adviceWalk) value(path jsontext.Pointer, value []byte) {
	if text, ok := jsonscan.DecodeText(value); ok {
		w.text(path, text)
		return
	}
	for name, value := range jsonscan.Members(value) {
		if path == "" && name == "name" {
			continue
		}
		at := path.AppendToken(name)
		w.text(at, name)
		w.value(at, value)
	}
	i := 0
	for value := range jsonscan.Elements(value) {
		w.value(path.AppendToken(strconv.Itoa(i)), value)
		i++
	}
}

// text adds at most one note of each kind.
func (w *adviceWalk) text(path jsontext.Pointer, text string) {
	const shortest = 4 // no text that is shorter means anything here
	if len(text) < shortest || len(w.notes) >= maxNotes {
		return
	}
	left := maxRead - w.read[w.server]
	if left == 0 {
		w.isCut = true
		return
	}
	text = text[:min(len(text), left)]
	w.read[w.server] += len(text)
	if found := addressed(text); found != "" {
		w.add(path, "it may be addressed to the model: "+found)
	}
	for token := range tokens(text) {
		if others := w.others(w.server, token); others != nil {
			w.add(path, "it names the tool "+Spell(token)+" of "+strings.Join(others, ", "))
			return
		}
	}
}

func (w *adviceWalk) add(path jsontext.Pointer, text string) {
	if len(w.notes) < maxNotes {
		w.notes = append(w.notes, Note{string(path), text})
	}
}

// tokens returns the parts of a text that could be names of tools.
func tokens(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		part := func(r rune) bool {
			return r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		for token := range strings.FieldsFuncSeq(text, part) {
			if token = strings.Trim(token, "-."); isDistinct(token) && !yield(token) {
				return
			}
		}
	}
}

// phrase is a form of text that is addressed to a model. Texts are compared in lower case, with single spaces and
// without hidden characters.
type phrase struct {
	words []string // one of them is in each text that matches
	form  *regexp.Regexp
}

// The nouns of the forms.
const (
	rules   = `(?:instruction|direction|directive|command|rule|guideline|guardrail|constraint|prompt|restriction|polic(?:y|ies)|request)s?`
	secrets = `(?:api[ _-]?keys?|credentials?|passwords?|secrets?|private keys?|ssh keys?|access tokens?|system prompt|system instructions|conversation|chat history|` +
		`environment variables|clipboard|id_rsa|\.env\b|~?/?\.ssh\b|~?/?\.aws\b|/etc/passwd|mcp\.json)`
	people = `(?:the |any |your )?(?:user|human|operator|caller|anyone|anybody|them|people|person)s?`
)

// phrases are forms of instructions, after the kinds that are published: tags that set text apart, orders to ignore others, to keep
// something secret, to read or send secrets, orders about other tools, and texts in the name of the system.
//
//nolint:gochecknoglobals // never changed, and compiled when it is needed first
var phrases = sync.OnceValue(func() []phrase {
	return []phrase{
		{[]string{"<"}, regexp.MustCompile(`<\s*/?\s*(?:important|system|secret|hidden|critical|instructions?|admin|developer|assistant|override)(?:[ _-][a-z_ -]*)?>`)},
		{[]string{"ignor", "disregard", "forget", "overrid", "bypass"}, regexp.MustCompile(`\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass) (?:(?:\S+ ){0,5}?` + rules + `\b|(?:all |everything )?(?:of )?the above\b)`)},
		{[]string{"tell", "inform", "mention", "reveal", "disclos", "notify"}, regexp.MustCompile(`\b(?:do not|don't|must not|never|without|avoid) (?:\S+ )?(?:explicitly )?(?:tell|inform|mention|reveal|disclos|notify)(?:e|ing)?\b`)},
		{[]string{"silent", "secret", "covert", "hidden"}, regexp.MustCompile(`\b(?:silently|secretly|covertly) (?:\S+ ){0,2}?(?:append|add|send|forward|include|copy|upload|read|pass|call|run|execute|post)|\bhidden (?:directive|instruction|system)|\b(?:hide|conceal|keep) (?:this|it|that) (?:secret|hidden|from )`)},
		{[]string{"instruct", "note to", "message", "developer mode", "jailbreak", "from now on", "you are now", "{{"}, regexp.MustCompile(
			`\b(?:note|notice|message|instructions?) (?:to|for) (?:the |all )?(?:assistant|ai|model|llm|agent|language model)s?\b|\b(?:assistant|ai|model|llm|agent|system|new|hidden|secret|updated|embedded) (?:instructions?|message|directive)(?: ###)?\s*[:\]#]|` +
				`\bnew system message\b|\bdeveloper mode\b|\bjailbreak|\bfrom now on\b|\byou are now (?:a|an|in)\b|\{\{ ?system|\bnew instructions are\b|\binstructions? (?:found|embedded) (?:in|inside)\b`)},
		{[]string{"system:", "prompt:"}, regexp.MustCompile(`(?:^|[\[#] ?)(?:system|prompt): \S`)},
		{[]string{"key", "credential", "password", "secret", "token", "prompt", "instruction", "conversation", "history", "environment", "clipboard", "id_rsa", ".env", ".ssh", ".aws", "passwd", "mcp.json"}, regexp.MustCompile(
			`\b(?:reveal|send|sends|post|posts|upload|uploads|forward|forwards|exfiltrates?|append|include|leak|embed|pass|output|return|copy|transmit) (?:\S+ ){0,5}?` + secrets +
				`|\b(?:read|reads|open|cat|access|copy|load) (?:\S+ ){0,4}?(?:id_rsa|\.env\b|~?/?\.ssh\b|~?/?\.aws\b|/etc/passwd|\S*mcp\.json|ssh keys?|confidential|secrets?\b)`)},
		{[]string{"exfiltrat", "attacker"}, regexp.MustCompile(`\bexfiltrat(?:e|es|ing)\b|\battacker`)},
		{[]string{"external", "remote", "http"}, regexp.MustCompile(`\b(?:posts?|sends?|forwards?|uploads?|transmits?|reroutes?) (?:\S+ ){0,6}?to (?:an? |the |our |another )?(?:external|remote|third.party|https?://)`)},
		{[]string{"before", "first", "always"}, regexp.MustCompile(
			`\bbefore (?:you )?(?:us|call|invok|runn?|provid|return|answer|respond)(?:e|ing)? (?:\S+ ){0,5}?(?:you )?(?:must|have to|should|need to|first|read|call)\b|\byou must (?:always |also )?first\b|\brequires you to (?:first )?\w+|` +
				`\balways (?:call|use|run|invoke) this (?:tool )?(?:first|before|instead)\b`)},
		{[]string{"tool"}, regexp.MustCompile(
			`\b(?:modif(?:y|ies)|changes?|replaces?) the (?:behaviou?r|output) of\b|\b(?:whenever|each time|every time|when) (?:the |any )?\S+(?: tool)? is (?:called|invoked|used)\b.*\b(?:first|must|also|instead|bcc|send|reroute)|` +
				`\b(?:this tool )?supersedes? \S+|\binstead of (?:the )?\S+ tool\b|\balways replace\b|\bonce this tool has been approved\b`)},
		{[]string{"approv"}, regexp.MustCompile(`\b(?:once|after|post)[ -](?:it (?:has been|is) |been |being )?approv(?:ed|al)\b.*\b(?:will|read|reads|silently|begin|execut)`)},
		{[]string{"safety", "confirmation", "without asking"}, regexp.MustCompile(`\b(?:without|no) (?:applying |any )?(?:safety checks?|confirmation|asking)\b|\bsafety (?:polic|guideline|rule|check)\S*`)},
		{[]string{"user", "human"}, regexp.MustCompile(`\b(?:do not|don't|never) (?:ask|warn|alert|show|bother) ` + people + `\b|\bbehind the user's back\b`)},
	}
})

// addressed returns the first words that are addressed to a model, spelt out, or "".
func addressed(text string) string {
	for sentence := range sentences(plainText(text)) {
		first := len(sentence)
		for _, p := range phrases() {
			if !slices.ContainsFunc(p.words, func(w string) bool { return strings.Contains(sentence, w) }) {
				continue
			}
			for _, at := range p.form.FindAllStringIndex(sentence, -1) {
				if at[0] < first && !isQuoted(sentence, at[0]) {
					first = at[0]
				}
			}
		}
		if first < len(sentence) {
			return excerpt(sentence, first)
		}
	}
	return ""
}

// maxSentence bounds a sentence, in bytes: the time for a form grows with the text, and regexp is fast for short ones only.
const maxSentence = 400

// sentences returns the sentences of a text. A longer one than maxSentence is cut, at a space if it has one.
func sentences(plain string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for plain != "" {
			end := min(len(plain), maxSentence)
			for _, mark := range []string{". ", "! ", "? "} {
				if at := strings.Index(plain[:end], mark); at >= 0 {
					end = at + len(mark)
				}
			}
			if end == maxSentence {
				if at := strings.LastIndexByte(plain[:end], ' '); at > 0 {
					end = at
				}
			}
			if !yield(plain[:end]) {
				return
			}
			plain = strings.TrimPrefix(plain[end:], " ")
		}
	}
}

// excerpt returns words of a sentence, at most maxQuoted characters.
func excerpt(sentence string, first int) string {
	runes := []rune(strings.TrimSpace(sentence[first:]))
	if len(runes) > maxQuoted {
		runes = append(runes[:maxQuoted], '…')
	}
	return Spell(string(runes))
}

// plainText returns a text in lower case, with single spaces, and without hidden characters.
func plainText(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co) || isVariation(r) || isUnseen(r) || r == '*' || r == '`':
			continue
		case r == '’':
			r = '\''
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// isQuoted reports whether a quotation begins just before a place: such a text is about the words.
func isQuoted(plain string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(plain[:at])
	return strings.ContainsRune(`'"“‘«`, before)
}
