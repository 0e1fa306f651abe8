// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Explanation says what a name means to a Gateway at one moment, and why. If no item has the
// name, the members after Items tell what is known of it.
type Explanation struct {
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"` // at which it is explained
	Offered bool   `json:"offered"`           // a client finds an item by this name

	// Items are the listed items that would have the name. If there are none, they are those
	// that have it in their backend, or would have it without a setting.
	Items []ExplainedItem `json:"items"`

	// Route is where a URI is read that no offered item has, or nil.
	Route *ExplainedRoute `json:"route,omitempty"`

	// Former are the items with this name that backends listed earlier, the newest first. A
	// bounded number of items is remembered.
	Former []FormerItem `json:"former,omitempty"`

	// Unreached are the backends that may have the name and have no lists yet.
	Unreached []ExplainedBackend `json:"unreached,omitempty"`

	// Incomplete describes the lists that are cut or could not be fetched.
	Incomplete []string `json:"incomplete,omitempty"`

	// Unlisted describes the backends that may have the name, and list it for none of the users
	// that have lists of their own there, or the one with a template for it that is held.
	Unlisted []string `json:"unlisted,omitempty"`

	// Server is the backend of this name, and Disabled the position of one that is disabled.
	Server   *BackendStatus `json:"server,omitempty"`
	Disabled string         `json:"disabled,omitempty"`

	// OfGateway reports that it is a tool of the gateway itself.
	OfGateway bool `json:"ofGateway,omitempty"`

	// Meant is the offered name that is most similar, or "".
	Meant string `json:"meant,omitempty"`
}

// ExplainedItem is an item that a backend lists, with the rules that decide about it.
type ExplainedItem struct {
	Kind    string           `json:"kind"` // tool, prompt, resource, or resource template
	Backend ExplainedBackend `json:"backend"`
	Own     string           `json:"own"`     // the name or URI in the backend
	Name    string           `json:"name"`    // the one that clients use, or would use
	Offered bool             `json:"offered"` // under Name
	Code    string           `json:"code,omitempty"`

	// Chain has what was decided, in order. The last step is the reason for an item that is
	// not offered.
	Chain []ExplainedStep `json:"chain"`

	// Changes are how the definition of its server has changed since it was approved; without a lock file, since
	// the gateway saw it before. They are not what is offered.
	Changes []ExplainedChange `json:"changes,omitempty"`

	// Summary is a sentence in place of the chain if that says more, or "".
	Summary string `json:"summary,omitempty"`

	// Fix is what to change for the item to be offered, if that is not the reverse of a rule.
	Fix string `json:"fix,omitempty"`
}

// ExplainedChange is a place at which a definition differs from the approved one, or from the one before. The texts are
// for people: characters that are not seen are spelt out.
type ExplainedChange struct {
	Path string `json:"path"` // a JSON pointer
	Old  string `json:"old"`  // "" if it was not there
	New  string `json:"new"`  // "" if it is not there any more
}

// ExplainedStep is one decision.
type ExplainedStep struct {
	Text string `json:"text"`

	// Position is where the setting is in the file, as file:line:column. It is empty without
	// such a setting, and if the file does not have it any more.
	Position string `json:"position,omitempty"`
}

// ExplainedBackend is the state of a backend.
type ExplainedBackend struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`           // starting, live, stale, down
	Listed time.Time `json:"listed,omitzero"` // when its lists were fetched
	Reason string    `json:"reason,omitempty"`
	Code   string    `json:"code,omitempty"`
}

// ExplainedRoute is the backend of a URI that no offered item has.
type ExplainedRoute struct {
	Backend  string `json:"backend"`
	Template string `json:"template,omitempty"` // that matches, or "" without one
	ByName   bool   `json:"byName,omitempty"`   // the URI has the scheme ui or skill, and leads to the backend; otherwise it is the only one with resources

	// Policy is the decision of the policy: about all callers, or with [Gateway.ExplainAs] about one;
	// or "".
	Policy string `json:"policy,omitempty"`
}

// Explain explains a tool, prompt, resource or resource template, by the name or URI that
// clients use or that its backend uses, or else a backend. The items are those of the current
// lists for clients with all capabilities. It reads the configuration file for the positions
// of settings, and does not wait for backends. The explanation is for clients of a profile,
// or of everything if it is empty; with a profile that does not exist it is nil.
func (g *Gateway) Explain(name, profile string) *Explanation {
	v := g.view.Load()
	x := &explainer{g: g, v: v, seen: v.at(profile), places: v.cfg.Places(), name: name}
	x.in, x.opt = v.input(v.offered)
	if profile != "" {
		i := slices.IndexFunc(x.opt.Profiles, func(p catalog.Profile) bool { return p.Name == profile })
		if i < 0 {
			return nil
		}
		x.profile = &x.opt.Profiles[i]
	}
	return x.explain()
}

// explainer is one run of Explain.
type explainer struct {
	g      *Gateway
	v      *view
	seen   *view // the part of v that the profile has
	in     []catalog.Backend
	opt    catalog.Options
	places config.Places
	name   string

	profile *catalog.Profile // nil for everything

	isOfSome bool // it is about lists that only some clients have
}

func (x *explainer) explain() *Explanation {
	e := &Explanation{Name: x.name, Items: []ExplainedItem{}}
	var allow func(*catalog.Entry) bool
	if x.profile != nil {
		e.Profile, allow = x.profile.Name, x.profile.Admits
	}
	whole := x.in
	if x.profile != nil && x.profile.OwnNames {
		x.in = x.profile.Alone(whole)
	}
	found := catalog.Explain(x.in, x.opt, allow, x.isAbout)
	if len(found) == 0 {
		x.in = whole // with those of other servers
		found = catalog.Explain(x.in, x.opt, allow, func(d *catalog.Decision) bool { return x.isAbout(d) && d.Verdict == catalog.Withheld })
	}
	if exact := func(d catalog.Decision) bool { return d.Name == x.name }; slices.ContainsFunc(found, exact) {
		found = slices.DeleteFunc(found, func(d catalog.Decision) bool { return !exact(d) })
	}
	for i := range found {
		item := x.item(&found[i])
		e.Offered = e.Offered || item.Offered && item.Name == x.name
		e.Items = append(e.Items, item)
	}
	x.ofUsers(e, allow)
	x.ofAppTools(e, allow)
	// A URI may be read although no list has it, or none that is offered.
	if entry, ok := x.seen.catalog.Resource(x.name); ok && !e.Offered && strings.Contains(x.name, ":") {
		if from, ok := x.seen.catalog.Route(x.name); ok {
			e.Route = &ExplainedRoute{Backend: from.BackendName, Template: from.Name, ByName: from.Name == "" && entry.Name != entry.Own}
		}
		e.Offered = true
		if r := e.Route; r != nil && x.v.policy != nil && !x.v.policy.dryRun && !x.isReadWithPolicy() {
			r.Policy, e.Offered = "a resource that is in no list and has no template is not read", false
		}
	}
	if own, ok := x.seen.catalog.Tool(x.name); ok && own.IsOwn() {
		e.OfGateway, e.Offered = true, true
	}
	if len(e.Items) == 0 && !e.Offered {
		x.explainUnlisted(e)
	}
	return e
}

// isReadWithPolicy reports whether the policy decides about the URI, which no list has. If not,
// nothing reads it.
func (x *explainer) isReadWithPolicy() bool {
	every := func(*catalog.Entry) bool { return true }
	_, ok := x.seen.catalog.PolicyView(every, every).Resource(x.name)
	return ok
}

// isAbout reports whether the name means an item: as offered, as in its backend, or as it
// would be without a setting.
func (x *explainer) isAbout(d *catalog.Decision) bool {
	if d.Own == "" {
		return false
	}
	return d.Name == x.name || d.Own == x.name ||
		isNamed(d.Kind) && (x.in[d.Backend].Prefixed(d.Own) == x.name || d.BackendName+"__"+d.Own == x.name)
}

// isNamed reports whether items of a kind have names, which prefixes and renames change.
func isNamed(k catalog.Kind) bool { return k == catalog.Tools || k == catalog.Prompts }

// explainUnlisted adds what is known of a name that no backend lists.
func (x *explainer) explainUnlisted(e *Explanation) {
	if b, ok := x.v.backend(x.name); ok {
		status := b.status()
		status.ToolBytes = x.v.catalog.ToolBytes(status.Name)
		e.Server = &status
		return
	}
	for i := range x.v.cfg.Servers {
		if srv := &x.v.cfg.Servers[i]; srv.Disabled && (srv.Name == x.name || srv.NamePrefix() != "" && strings.HasPrefix(x.name, srv.NamePrefix())) {
			e.Disabled = x.places.Server(srv.Name, "", "disabled").String()
			if e.Disabled == "" {
				e.Disabled = configpath.Server(srv.Name)
			}
			return
		}
	}
	e.Former = x.g.former.find(x.name)
	if held := x.seen.catalog.HeldFor(x.name); held != nil {
		e.Unlisted = append(e.Unlisted, fmt.Sprintf("server %s has the template %q for it, which is held: look at it with signalbox approve %s", held.BackendName, held.Own, held.BackendName))
		return
	}
	for i, b := range x.v.backends {
		switch text := x.unlistedForUsers(b, x.v.offered[i]); {
		case x.v.offered[i].Known() || !b.mayOffer(x.name):
		case text != "":
			e.Unlisted = append(e.Unlisted, text)
		default:
			e.Unreached = append(e.Unreached, b.explained(x.v.offered[i]))
		}
		for k := range catalog.NumKinds {
			if problem := x.in[i].Lists[k].Problem; problem != "" && b.mayOffer(x.name) {
				e.Incomplete = append(e.Incomplete, fmt.Sprintf("server %s: %s", b.Name(), problem))
			}
		}
	}
	e.Meant = x.meant()
	if slices.ContainsFunc(e.Unreached, func(b ExplainedBackend) bool { return b.Name == e.Meant }) {
		e.Meant = "" // named already
	}
}

// meant returns the offered name that is most similar to the name, also by the names in the
// backends.
func (x *explainer) meant() string {
	names := make(map[string]string)
	var words []string
	for _, own := range []bool{false, true} {
		for k := range catalog.NumKinds {
			for e := range x.seen.catalog.Entries(k) {
				word := e.Name
				if own {
					word = e.Own
				}
				if _, known := names[word]; !known {
					names[word], words = e.Name, append(words, word)
				}
			}
		}
	}
	for _, b := range x.seen.backends {
		if _, known := names[b.Name()]; !known {
			names[b.Name()], words = b.Name(), append(words, b.Name())
		}
	}
	return names[spelling.Nearest(x.name, words)]
}

// explained returns the state of the backend with an offer.
func (b *activeBackend) explained(o *backend.Offer) ExplainedBackend {
	e := ExplainedBackend{Name: b.Name(), State: o.State.String(), Listed: o.At, Reason: o.Reason, Code: o.Code}
	if o.State == backend.Starting {
		e.Reason = b.startingReason()
	}
	return e
}

// item explains one decision.
func (x *explainer) item(d *catalog.Decision) ExplainedItem {
	it := ExplainedItem{
		Kind: d.Kind.String(), Own: d.Own, Name: d.Name, Offered: d.Verdict == catalog.Offered,
		Backend: x.v.backends[d.Backend].explained(x.v.offered[d.Backend]),
	}
	listed := "listed"
	if d.Kind != catalog.Tools {
		listed += " as a " + d.Kind.String()
	}
	it.step(config.Place{}, "%s", listed)
	switch d.Verdict {
	case catalog.BeyondLimit:
		it.Code = d.Code()
		it.step(x.places.Setting("", "limits", "toolsPerBackend"), "at place %d, beyond limits.toolsPerBackend", d.Place+1)
		it.Fix = "raise limits.toolsPerBackend, or exclude what is not needed"
	case catalog.Repeated:
		it.step(config.Place{}, "a second time; the first one counts")
	case catalog.Excluded:
		pattern := x.in[d.Backend].Rules.Exclude[d.Pattern]
		it.step(x.places.Server(d.BackendName, pattern, "exclude", d.Pattern), "exclude %q", pattern)
	case catalog.NotIncluded:
		it.step(x.places.Server(d.BackendName, "", "include"), "no pattern of include matches %q", d.Own)
	case catalog.Held:
		it.step(x.places.Setting("", "pins"), "%s", d.Problem)
		it.Code = d.Pin.Code
	case catalog.AppOnly, catalog.AppsOff:
		x.appsAlone(&it, d)
	default:
		x.admitted(&it, d)
		if d.Pin.Problem != "" {
			it.step(x.places.Setting("", "pins"), "%s", d.Pin.Problem)
			it.Code = cmp.Or(it.Code, d.Pin.Code)
		}
	}
	it.Changes = x.changes(d)
	return it
}

// changes returns what has changed of an item: since it was approved, or else since the gateway saw it first.
func (x *explainer) changes(d *catalog.Decision) (all []ExplainedChange) {
	kind, ok := pinKinds[d.Kind]
	if !ok || x.v.pins == nil {
		return nil
	}
	key := pins.Key{Server: d.BackendName, Kind: kind, Name: d.Own}
	found := x.g.changedDefinitions.of(key)
	if key.Face = faceOf(d.Kind, x.v.rendered); key.Face == pins.UI && x.isOfSome {
		found = nil // those are of the other list
	}
	if digest, ok := x.v.cfg.Lock().Compared(key); ok {
		found = x.changesFrom(digest, key, d)
	}
	for _, c := range found {
		all = append(all, ExplainedChange(c))
	}
	return all
}

// changesFrom returns how an item differs from the approved definition with a digest.
func (x *explainer) changesFrom(digest pins.Digest, key pins.Key, d *catalog.Decision) []pins.Difference {
	approved, ok := x.v.pins.text(digest)
	if !ok {
		return nil
	}
	for _, item := range x.in[d.Backend].Lists[d.Kind].Items {
		of, ok := x.v.pinKey(d.BackendName, d.Kind, item)
		switch {
		case !ok || of != key:
		case x.v.cfg.Lock().Approves(key, x.v.pins.digests.Of(item)):
			return nil
		default:
			return pins.Diff(approved, item)
		}
	}
	return nil
}

// step adds a step with the position of its setting.
func (it *ExplainedItem) step(at config.Place, format string, args ...any) {
	it.Chain = append(it.Chain, ExplainedStep{fmt.Sprintf(format, args...), at.String()})
}

// admitted explains an item that the rules of its backend offer.
func (x *explainer) admitted(it *ExplainedItem, d *catalog.Decision) {
	if d.Pattern >= 0 {
		pattern := x.in[d.Backend].Rules.Include[d.Pattern]
		it.step(x.places.Server(d.BackendName, pattern, "include", d.Pattern), "include %q", pattern)
	}
	if d.Verdict == catalog.Invalid {
		it.step(config.Place{}, "%s", d.Problem)
		if it.Code = d.Code(); it.Code != "" {
			it.Fix = "raise limits.schema"
		}
		return
	}
	if isNamed(d.Kind) {
		how, at := x.naming(d.Backend, d.Own)
		it.step(at, "%s", how)
	} else if d.Name != d.Own {
		it.step(config.Place{}, "its server's own URI is %s", d.Own)
	}
	switch d.Verdict {
	case catalog.Conflict:
		it.Code = code.NameConflict
		x.conflict(it, d)
	case catalog.Reserved:
		it.Code = code.NameReserved
		it.step(x.places.Setting("", "results"), "the gateway has a tool with this name (results)")
		it.Fix = "rename it"
	case catalog.Taken:
		it.Code = conflictCode(d.Kind)
		x.taken(it, d)
	case catalog.Withheld:
		x.withheld(it, d)
	default:
		x.offered(it, d)
		x.ofApp(it, d)
		x.filters(it, d)
		x.results(it, d)
		if x.v.policy != nil && !x.v.policy.dryRun {
			it.step(x.places.Setting("", "policy"), forAllowed)
		}
	}
}

// conflictCode returns the code of an item that another has taken the name of.
func conflictCode(k catalog.Kind) string {
	if k == catalog.Skills {
		return code.SkillShared
	}
	return code.NameConflict
}

// withheld explains an item that the profile does not have.
func (x *explainer) withheld(it *ExplainedItem, d *catalog.Decision) {
	p := x.profile
	switch v, pattern := p.Judge(d.Kind, d.BackendName, d.Name); v {
	case catalog.Excluded:
		text := p.Exclude[pattern]
		it.step(x.places.Setting(text, "profiles", p.Name, "exclude", pattern), "profile %s: exclude %q", p.Name, text)
	case catalog.NotIncluded:
		it.step(x.places.Setting("", "profiles", p.Name, "include"), "profile %s: no pattern of include matches %q", p.Name, d.Name)
	default:
		it.step(x.places.Setting("", "profiles", p.Name, "servers"), "profile %s: its servers are %s", p.Name, enumerate(p.Backends))
	}
}

// naming describes how an item gets its name, and where that is set.
func (x *explainer) naming(i int, own string) (string, config.Place) {
	in := &x.in[i]
	if in.OwnNames {
		return fmt.Sprintf("profile %s: names: own", x.profile.Name), x.places.Setting(config.NamesOwn, "profiles", x.profile.Name, "names")
	}
	if to, ok := in.Rules.Rename[own]; ok {
		return fmt.Sprintf("renamed %q", to), x.places.Server(in.Name, to, "rename", own)
	}
	if in.Rules.Prefix == nil {
		return fmt.Sprintf("prefix %q", in.Name+"__"), config.Place{}
	}
	at := x.places.Server(in.Name, *in.Rules.Prefix, "prefix")
	if *in.Rules.Prefix == "" {
		return "empty prefix", at
	}
	return fmt.Sprintf("prefix %q", *in.Rules.Prefix), at
}

// conflict explains an item with a name that others would have, too.
func (x *explainer) conflict(it *ExplainedItem, d *catalog.Decision) {
	it.step(x.places.Setting(string(config.ConflictHide), "conflict"), "conflict: hide")
	var servers, origins []string
	var places []config.Place
	bare := true
	for _, e := range d.Group {
		how, at := x.naming(e.Backend, e.Own)
		bare = bare && how == "empty prefix"
		servers, places = append(servers, e.BackendName), append(places, at)
		origin := fmt.Sprintf("%q of %s, %s", e.Own, e.BackendName, how)
		if at != (config.Place{}) {
			origin += " (" + at.String() + ")"
		}
		origins = append(origins, origin)
	}
	if !bare {
		it.Summary = fmt.Sprintf("Several items would have the name %s: %s; conflict: hide.", d.Name, strings.Join(origins, "; "))
		it.Fix = "rename one of them, or set conflict: first"
		return
	}
	all := "both"
	if len(servers) > 2 {
		all = "all"
	}
	where := lines(places)
	if where != "" {
		where = " (" + where + ")"
	}
	what := "it"
	if d.Name != x.name {
		what = d.Name
	}
	it.Summary = fmt.Sprintf("Servers %s %s list %s under the empty prefix%s; conflict: hide.", enumerate(servers), all, what, where)
	it.Fix = "give one of them a prefix, or set conflict: first"
}

// taken explains an item with a name or URI that another one has first.
func (x *explainer) taken(it *ExplainedItem, d *catalog.Decision) {
	first := d.Group[0]
	if !isNamed(d.Kind) {
		it.step(config.Place{}, "server %s lists it first", first.BackendName)
		return
	}
	it.step(x.places.Setting(string(config.ConflictFirst), "conflict"), "%q of server %s has the name first; conflict: first", first.Own, first.BackendName)
	it.Fix = "rename one of them"
}

// offered explains an item that is offered: to whom, and under which name if not this one.
func (x *explainer) offered(it *ExplainedItem, d *catalog.Decision) {
	if d.Kind == catalog.Tools && !catalog.IsModelName(d.Name) {
		it.Code = code.NameLong
		it.step(config.Place{}, "with a name that model providers reject: %d characters, of at most %d letters, digits, _ and -", len(d.Name), catalog.MaxModelName)
		it.Fix = "set a short prefix, or rename it"
	}
	for _, lacking := range x.withheldFrom(d) {
		it.step(config.Place{}, "not to clients without %s", enumerate(lacking))
	}
	if x.profile != nil {
		if _, pattern := x.profile.Judge(d.Kind, d.BackendName, d.Name); pattern >= 0 {
			text := x.profile.Include[pattern]
			it.step(x.places.Setting(text, "profiles", x.profile.Name, "include", pattern), "profile %s: include %q", x.profile.Name, text)
		}
	}
	if d.Name == x.name || d.Own == x.name {
		return
	}
	if to, ok := x.in[d.Backend].Rules.Rename[d.Own]; ok {
		it.Summary = fmt.Sprintf("Server %s lists %q, renamed to %q", d.BackendName, d.Own, to)
		if at := x.places.Server(d.BackendName, to, "rename", d.Own); at != (config.Place{}) {
			it.Summary += " at " + at.String()
		}
		it.Summary += "."
		return
	}
	it.Summary = fmt.Sprintf("Server %s lists %q, offered as %s.", d.BackendName, d.Own, d.Name)
}

// withheldFrom returns the capabilities that clients lack for which the backend does not list
// the item. Only capabilities with which clients have come are known.
func (x *explainer) withheldFrom(d *catalog.Decision) [][]string {
	if x.isOfSome { // which were requested for clients with each capability
		return nil
	}
	all := &x.g.perClient
	all.mu.Lock()
	features := maps.Clone(all.byFeatures)
	all.mu.Unlock()
	var lacking [][]string
	for _, p := range slices.Sorted(maps.Keys(features)) {
		if p.Has(backend.RendersApps) {
			continue // with other items, and not fewer
		}
		listed := func(e *catalog.Entry) bool { return e.Own == d.Own && e.BackendName == d.BackendName }
		seen := features[p].view(x.v)
		if x.in[d.Backend].OwnNames {
			seen = seen.at(x.profile.Name)
		}
		if entries := slices.Collect(seen.catalog.Entries(d.Kind)); !slices.ContainsFunc(entries, listed) {
			lacking = append(lacking, p.Lacks())
		}
	}
	return lacking
}

// enumerate joins words with commas and a final "and".
func enumerate(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// lines joins positions in one file as file:line,line.
func lines(places []config.Place) string {
	text := ""
	for i, p := range places {
		switch {
		case p == (config.Place{}) || p.File != places[0].File:
			return ""
		case i == 0:
			text = p.File + ":" + strconv.Itoa(p.Line)
		case p.Line != places[i-1].Line:
			text += "," + strconv.Itoa(p.Line)
		}
	}
	return text
}
