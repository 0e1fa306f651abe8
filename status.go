// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Status is the state of a Gateway, for people and their tools.
type Status struct {
	Version  string          `json:"version"` // of the gateway, as sent to clients
	Started  time.Time       `json:"started"`
	Uptime   time.Duration   `json:"-"`
	Draining bool            `json:"draining"` // new traffic must go elsewhere
	Backends []BackendStatus `json:"backends"` // in the order of the configuration

	// Profiles is what the profiles offer, in the order of the configuration.
	Profiles []ProfileStatus `json:"profiles,omitempty"`

	// Issuers is the state of the identity providers, in the order of the configuration.
	Issuers []IssuerStatus `json:"issuers,omitempty"`

	// Problems lists what is not as configured, and why: items and backends that are
	// not offered, and a gateway that cannot keep up. Before these it lists what
	// prevents the last configuration from being applied, each as "reload refused: ..."
	// or "reload waits: ...".
	Problems []string `json:"problems"`

	// Reloaded is when a configuration was last applied to the running gateway, or zero.
	Reloaded time.Time `json:"reloaded,omitzero"`

	// ReloadRefused is the last reload if it was refused, or nil. Until a reload
	// succeeds, the previous configuration stays in use.
	ReloadRefused *Refusal `json:"reloadRefused,omitempty"`

	Sessions int   `json:"sessions"`     // legacy sessions of clients on HTTP
	InFlight int   `json:"inFlight"`     // requests and streams
	Pending  int64 `json:"pendingBytes"` // size of the responses that clients have not read

	// Results is what is kept of large results, or nil if none are cut.
	Results *ResultsStatus `json:"results,omitempty"`

	// Limits are those in force, formatted as in a file, by their keys below "limits".
	// An error that a limit causes names its key, which can be looked up here.
	Limits map[string]string `json:"limits"`

	// Promise states what happens to the state of the gateway when its process ends.
	Promise string `json:"promise"`
}

// Refusal is a reload that was not applied.
type Refusal struct {
	At       time.Time `json:"at"`
	Problems []string  `json:"problems"`       // one line each
	Waits    bool      `json:"waits,omitzero"` // valid, but waits for the operator
}

// prefix is the beginning of each line of the problems.
func (r *Refusal) prefix() string {
	if r.Waits {
		return "reload waits: "
	}
	return "reload refused: "
}

// BackendStatus is the state of one backend. The counts are those of the backend's
// lists, before the operator's rules.
type BackendStatus struct {
	Name      string      `json:"name"`
	State     string      `json:"state"`            // starting, live, stale, down, idle, kept
	Reason    string      `json:"reason,omitempty"` // why it is not live
	Code      string      `json:"code,omitempty"`   // the code of the reason; see docs/codes.md
	Era       string      `json:"era,omitempty"`    // legacy or modern, once known
	Version   mcp.Version `json:"version,omitempty"`
	Tools     int         `json:"tools"`
	ToolBytes int         `json:"toolBytes"` // size of the definitions of those tools that are offered
	Resources int         `json:"resources"`
	Templates int         `json:"templates"`
	Prompts   int         `json:"prompts"`
	Skills    int         `json:"skills,omitzero"`
	Since     time.Time   `json:"since,omitzero"` // when the lists were fetched

	// Offered are the numbers of its items that clients get: without those that the
	// operator's rules and conflicts of names leave out.
	Offered ItemCounts `json:"offered"`

	// Processes is how many processes of it run, each with all that it has started, and
	// Starts how many were started within the last hour. Memory is the resident memory of
	// those that run, in bytes; -1 if it cannot be measured on the system.
	Processes int   `json:"processes,omitzero"`
	Starts    int   `json:"startsLastHour,omitzero"`
	Memory    int64 `json:"memoryBytes,omitzero"`

	// LastStart is where the time of the latest start of a process went.
	LastStart *ProcessStart `json:"lastStart,omitempty"`

	// AppTools are the names by which apps call its tools, if it has an app: its own ones.
	AppTools []string `json:"appTools,omitempty"`

	// OAuth is how access tokens for it are obtained, or nil.
	OAuth *OAuthStatus `json:"oauth,omitempty"`

	// Users is about the lists of its users, if it lists only for those that are signed in, for
	// each its own. The state is then the best one of theirs, and no items of it are counted.
	Users *UserListsStatus `json:"users,omitempty"`

	// Advice is about texts of its definitions that a person should look at; see Definition.
	Advice string `json:"advice,omitempty"`

	// OtherOutput describes the first line that its process wrote to its output and that is
	// not a message.
	OtherOutput string `json:"otherOutput,omitempty"`
}

// ProcessStart are parts of the time that a process took to be ready, in milliseconds.
type ProcessStart struct {
	Install   float64 `json:"installMs,omitzero"` // a package manager such as npx, until it began the server's own program; on Linux
	Program   float64 `json:"programMs"`          // from then until its first output
	Handshake float64 `json:"handshakeMs"`        // from then until it was ready
}

// ItemCounts are numbers of items.
type ItemCounts struct {
	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	Skills    int `json:"skills,omitzero"`
}

// Total returns the number of all items.
func (c *ItemCounts) Total() int { return c.Tools + c.Resources + c.Templates + c.Prompts + c.Skills }

// Listed returns the numbers of the items that the backend lists.
func (b *BackendStatus) Listed() ItemCounts {
	return ItemCounts{b.Tools, b.Resources, b.Templates, b.Prompts, b.Skills}
}

// promise is the Promise of a gateway that is a single process.
const promise = "one process, its state in memory: when it ends, sessions are unknown (404) and begin anew, " +
	"calls in flight have outcome unknown, its child processes end with it, and nothing is run twice"

// promiseOf returns the Promise of a gateway with a configuration.
func promiseOf(cfg *config.Config) string {
	if len(cfg.Quotas) == 0 {
		return promise
	}
	return promise + "; what was charged to quotas is forgotten"
}

// Status returns the current state. It does not block.
func (g *Gateway) Status() Status {
	v := g.view.Load()
	stats := g.server.Stats()
	s := Status{
		Version: g.version, Started: g.started, Uptime: time.Since(g.started).Round(time.Second), Draining: !g.Ready(),
		Backends: make([]BackendStatus, 0, len(v.backends)), Profiles: v.profileStatus(), Problems: []string{}, ReloadRefused: g.refusal.Load(),
		Sessions: stats.Sessions, InFlight: stats.InFlight, Pending: stats.Pending, Limits: limitsInForce(&v.cfg.Limits), Promise: promiseOf(v.cfg),
	}
	offered := offeredItems(v.catalog)
	for _, b := range v.backends {
		state := b.status()
		state.Offered = offered[state.Name]
		state.ToolBytes = v.catalog.ToolBytes(state.Name)
		state.Advice = v.adviceText(state.Name)
		state.AppTools = v.catalog.AppNames(state.Name)
		s.Backends = append(s.Backends, state)
	}
	processes := v.processes() // takes longer, so that the rest is of one moment
	for i := range s.Backends {
		s.Backends[i].setProcesses(&processes[i])
	}
	if v.cuts {
		s.Results = new(g.results.status())
		s.Results.Whole = v.wholeTools()
	}
	s.Issuers = g.issuerStatus()
	if at := g.reloaded.Load(); at != nil {
		s.Reloaded = *at
	}
	if s.ReloadRefused != nil {
		for _, p := range s.ReloadRefused.Problems {
			s.Problems = append(s.Problems, s.ReloadRefused.prefix()+p)
		}
	}
	for i := range s.Issuers {
		if p := s.Issuers[i].Problem(); p != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	if v.policy != nil && v.policy.dryRun {
		s.Problems = append(s.Problems, "policy.dryRun is set: the policy refuses and hides nothing")
	}
	for i, b := range v.backends {
		if p := b.signInProblem(v.cfg, &s.Backends[i]); p != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	s.Problems = append(s.Problems, g.lagProblem()...)
	s.Problems = append(s.Problems, v.processProblems(processes)...)
	for _, p := range slices.Concat(v.catalog.Problems(), g.allAppProblems(v)) {
		s.Problems = append(s.Problems, p.String())
	}
	s.Problems = append(s.Problems, v.pins.heldPages()...)
	return s
}

// offeredItems returns the numbers of offered items, by backend.
func offeredItems(c *catalog.Catalog) map[string]ItemCounts {
	counts := make(map[string]ItemCounts)
	for k := range catalog.NumKinds {
		for e := range c.Entries(k) {
			n := counts[e.BackendName]
			switch k {
			case catalog.Tools:
				n.Tools++
			case catalog.Prompts:
				n.Prompts++
			case catalog.Resources:
				n.Resources++
			case catalog.Templates:
				n.Templates++
			case catalog.Skills:
				n.Skills++
			case catalog.NumKinds: // no kind
			}
			counts[e.BackendName] = n
		}
	}
	return counts
}

// ToolBackends returns the name of the backend of each tool that is offered. It does not block.
func (g *Gateway) ToolBackends() map[string]string {
	backends := make(map[string]string)
	for e := range g.view.Load().catalog.Entries(catalog.Tools) {
		backends[e.Name] = e.BackendName
	}
	return backends
}

// status returns the state of the backend. It reads the offer once, so that state,
// counts and reason are of the same moment.
func (b *activeBackend) status() BackendStatus {
	o := b.Offer()
	s := BackendStatus{
		Name:      b.Name(),
		State:     o.State.String(),
		Reason:    o.Reason,
		Code:      o.Code,
		Version:   o.Server.Version,
		Tools:     len(o.Lists[catalog.Tools].Items),
		Resources: len(o.Lists[catalog.Resources].Items),
		Templates: len(o.Lists[catalog.Templates].Items),
		Prompts:   len(o.Lists[catalog.Prompts].Items),
		Skills:    len(o.Lists[catalog.Skills].Items),
		Since:     o.At,
	}
	if o.State == backend.Starting {
		s.Reason = b.startingReason()
	}
	if b.listsPerUser(o) {
		b.users.describe(&s, b)
	}
	if b.client != nil {
		s.OtherOutput = b.client.OtherOutput()
	}
	if b.access != nil {
		s.OAuth = b.access.status()
	}
	if era := s.Version.Era(); era != mcp.EraUnknown {
		s.Era = era.String()
	}
	return s
}

// startingReason returns for how long a backend has been starting and what it waits for. It
// is empty in the first second.
func (b *activeBackend) startingReason() string {
	var known []string
	what, since := b.Awaits()
	if waited := time.Since(since).Truncate(time.Second); what != backend.AwaitsNothing && waited > 0 {
		known = append(known, awaitedText(what, waited))
	}
	if b.client != nil {
		if wrote := b.client.OtherOutput(); wrote != "" {
			known = append(known, wrote)
		}
	}
	return strings.Join(known, "; ")
}

func awaitedText(what backend.Awaited, waited time.Duration) string {
	switch what {
	case backend.AwaitsClient:
		return fmt.Sprintf("waiting for the client for %v", waited)
	case backend.AwaitsTurn:
		return fmt.Sprintf("waiting for its turn for %v, while other servers start", waited)
	case backend.AwaitsLists:
		return fmt.Sprintf("no response to the requests for its lists for %v", waited)
	default:
		return fmt.Sprintf("no response for %v", waited)
	}
}

// unreachedReason returns why a backend was never reached.
func (b *activeBackend) unreachedReason(o *backend.Offer) string {
	if o.Reason != "" {
		return o.Reason
	}
	if known := b.startingReason(); known != "" {
		return "it is starting: " + known
	}
	return "it is starting"
}

// limitsInForce formats the limits as in a file: sizes with binary units, times as
// durations, counts as numbers, and "none".
func limitsInForce(l *config.Limits) map[string]string {
	out := make(map[string]string)
	for field, value := range reflect.ValueOf(l).Elem().Fields() {
		out[field.Tag.Get("json")] = limitText(value)
	}
	return out
}

// limitText formats one limit by the type of its field: int64 is a size in bytes, int
// is a count.
func limitText(value reflect.Value) string {
	n := value.Int()
	switch {
	case n < 0:
		return "none"
	case value.Type() == reflect.TypeFor[time.Duration]():
		return shortDuration(time.Duration(n))
	case value.Kind() == reflect.Int64:
		return byteSize(n)
	default:
		return strconv.FormatInt(n, 10)
	}
}

// shortDuration omits the units that are zero: 30m, not 30m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// byteSize formats a size in the largest unit that divides it.
func byteSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for n > 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// lagCure is the advice for a gateway that cannot keep up.
const lagCure = "give it more processor time and memory, or fewer clients (limits.sessions)"

// noteLag records how late a timer fired.
func (g *Gateway) noteLag(late time.Duration) {
	if g.lag.Note(late) {
		g.log.Warn("the gateway cannot keep up: its timers fire late", slog.Duration("late", late.Round(time.Millisecond)), slog.String("cure", lagCure))
	}
}

// lagProblem returns the problem of a gateway that cannot keep up, or nil.
func (g *Gateway) lagProblem() []string {
	worst, is := g.lag.Worst()
	if !is {
		return nil
	}
	return []string{fmt.Sprintf("the gateway cannot keep up: its timers fired up to %v late within the last minute; %s", worst.Round(time.Millisecond), lagCure)}
}
