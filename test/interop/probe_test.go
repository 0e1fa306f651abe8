// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"time"
)

// feature is a column of the table. The clients in clients/ use the same names.
type feature string

const (
	featureConnect   feature = "connect"
	featureTools     feature = "tools"
	featureResources feature = "resources"
	featureTemplates feature = "templates"
	featurePrompts   feature = "prompts"
	featureCall      feature = "call"
	featureProgress  feature = "progress"
	featureCancel    feature = "cancel"
	featureLog       feature = "log"
	featureComplete  feature = "complete"
	featureRead      feature = "read"
	featureGet       feature = "get"
	featureElicit    feature = "elicit"
	featureSample    feature = "sample"
	featureRoots     feature = "roots"
	featureSeveral   feature = "several"
	featureURL       feature = "url"        // an elicitation that sends the user to a page
	featureUse       feature = "use"        // sampling with tools
	featureState     feature = "state"      // the state of a question returns with the answer
	featureHeader    feature = "header"     // an argument that is mirrored to a header
	featureKinds     feature = "kinds"      // each kind of content
	featureStructure feature = "structured" // structured content
	featureErrors    feature = "errors"     // an error has the code of the era
	featureCaps      feature = "caps"       // the server declares its capabilities
	featureInstruct  feature = "instruct"   // the server sends instructions
	featureTasks     feature = "tasks"      // a call that runs as a task
	featureChanges   feature = "changes"
	featureUpdates   feature = "updates"
)

// features returns the columns in order.
func features() []feature {
	return []feature{
		featureConnect, featureTools, featureResources, featureTemplates, featurePrompts, featureCall, featureProgress, featureCancel, featureLog,
		featureComplete, featureRead, featureGet, featureElicit, featureSample, featureRoots, featureSeveral,
		featureURL, featureUse, featureState, featureHeader, featureKinds, featureStructure, featureErrors, featureCaps, featureInstruct,
		featureTasks, featureChanges, featureUpdates,
	}
}

// probes describe the tests of one server, feature by feature, and the expected results. A
// missing probe is a feature that the server does not offer. They are plain data, the same
// for every client in any language.
type probes struct {
	Name string `json:"name"`
	// Brief are the features that are known not to work, or not reliably: they get a short
	// time limit.
	Brief     []feature       `json:"brief,omitempty"`
	Tools     []string        `json:"tools,omitempty"`
	Resources []string        `json:"resources,omitempty"`
	Templates []string        `json:"templates,omitempty"`
	Prompts   []string        `json:"prompts,omitempty"`
	Call      *callProbe      `json:"call,omitempty"`
	Progress  *callProbe      `json:"progress,omitempty"`
	Cancel    *cancelProbe    `json:"cancel,omitempty"`
	Log       *callProbe      `json:"log,omitempty"`
	Complete  []completeProbe `json:"complete,omitempty"`
	Read      []readProbe     `json:"read,omitempty"`
	Get       *callProbe      `json:"get,omitempty"`
	Elicit    *callProbe      `json:"elicit,omitempty"`
	Sample    *callProbe      `json:"sample,omitempty"`
	Roots     *callProbe      `json:"roots,omitempty"`
	Several   *callProbe      `json:"several,omitempty"`
	URL       *callProbe      `json:"url,omitempty"`
	Use       *callProbe      `json:"use,omitempty"`
	State     *callProbe      `json:"state,omitempty"`
	Header    *callProbe      `json:"header,omitempty"`
	// Kinds expects the kinds of content, and Structure the structured content as JSON.
	Kinds     *callProbe  `json:"kinds,omitempty"`
	Structure *callProbe  `json:"structured,omitempty"`
	Errors    *errorProbe `json:"errors,omitempty"`
	Caps      []string    `json:"caps,omitempty"`
	// Instruct is part of the instructions.
	Instruct string       `json:"instruct,omitempty"`
	Tasks    *callProbe   `json:"tasks,omitempty"`
	Changes  *changeProbe `json:"changes,omitempty"`
	Updates  *updateProbe `json:"updates,omitempty"`
}

// callProbe calls a tool, or gets a prompt, and expects Want in the text.
type callProbe struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments,omitempty"`
	// Want is part of the result; for the feature log, of the log message.
	Want string `json:"want"`
	// Steps is how often the call reports progress.
	Steps int `json:"steps,omitempty"`
	// Eventually allows further calls until one succeeds, for a server that learns something
	// after the handshake and does not report when.
	Eventually bool `json:"eventually,omitempty"`
	// Stop undoes the call.
	Stop *callProbe `json:"stop,omitempty"`
}

// cancelProbe cancels Block once Started returns; Cancelled returns when the cancellation
// has reached the tool itself.
type cancelProbe struct {
	Block     callProbe `json:"block"`
	Started   callProbe `json:"started"`
	Cancelled callProbe `json:"cancelled"`
}

// completeProbe expects Value among the completions of Argument.
type completeProbe struct {
	Ref      map[string]string `json:"ref"`
	Argument map[string]string `json:"argument"`
	Value    string            `json:"value"`
}

// readProbe expects Text in the resource.
type readProbe struct {
	URI  string `json:"uri"`
	Text string `json:"text"`
}

// errorProbe reads a missing resource, and expects one of the codes.
type errorProbe struct {
	URI   string `json:"uri"`
	Codes []int  `json:"codes"`
}

// missing reads a missing resource. The modern era has one code for it; the legacy era has
// its own, and servers that serve both often send the other.
func missing(uri string) *errorProbe {
	return &errorProbe{URI: uri, Codes: []int{codeNotFound, codeInvalidParams}}
}

const (
	codeNotFound      = -32002
	codeInvalidParams = -32602
)

// inEra returns the probe for clients of an era.
func (e *errorProbe) inEra(era string) *errorProbe {
	if e == nil || era == eraLegacy {
		return e
	}
	return &errorProbe{URI: e.URI, Codes: []int{codeInvalidParams}}
}

// changeProbe calls Add, expects a notice, and then Item in the list of Kind, and calls it
// if it is a tool; and the same in reverse with Remove, if the server can.
type changeProbe struct {
	Kind   string     `json:"kind"`
	Item   string     `json:"item"`
	Add    callProbe  `json:"add"`
	Use    *callProbe `json:"use,omitempty"`
	Remove *callProbe `json:"remove,omitempty"`
}

// updateProbe subscribes to the resource, calls Touch, and expects an update.
type updateProbe struct {
	URI   string    `json:"uri"`
	Touch callProbe `json:"touch"`
}

// limit is the time limit of a client for a feature.
func (p probes) limit(f feature) time.Duration {
	if slices.Contains(p.Brief, f) {
		return briefLimit
	}
	return featureLimit
}

// offers reports whether there is something to test.
func (p probes) offers(f feature) bool {
	has := map[feature]bool{
		featureConnect: true, featureTools: p.Tools != nil, featureResources: p.Resources != nil,
		featureTemplates: p.Templates != nil, featurePrompts: p.Prompts != nil, featureCall: p.Call != nil,
		featureProgress: p.Progress != nil, featureCancel: p.Cancel != nil, featureLog: p.Log != nil,
		featureComplete: p.Complete != nil, featureRead: p.Read != nil, featureGet: p.Get != nil,
		featureElicit: p.Elicit != nil, featureSample: p.Sample != nil, featureRoots: p.Roots != nil,
		featureSeveral: p.Several != nil, featureURL: p.URL != nil, featureUse: p.Use != nil, featureState: p.State != nil,
		featureHeader: p.Header != nil, featureKinds: p.Kinds != nil, featureStructure: p.Structure != nil,
		featureErrors: p.Errors != nil, featureCaps: p.Caps != nil, featureInstruct: p.Instruct != "",
		featureTasks: p.Tasks != nil, featureChanges: p.Changes != nil, featureUpdates: p.Updates != nil,
	}
	return has[f]
}

// prefixed returns the probes behind a gateway that prefixes the names of tools and
// prompts. URIs stay.
func (p probes) prefixed(prefix string) probes {
	p.Tools = prefixAll(p.Tools, prefix)
	p.Prompts = prefixAll(p.Prompts, prefix)
	for _, c := range []**callProbe{
		&p.Call, &p.Progress, &p.Log, &p.Get, &p.Elicit, &p.Sample, &p.Roots, &p.Several,
		&p.URL, &p.Use, &p.State, &p.Header, &p.Kinds, &p.Structure, &p.Tasks,
	} {
		*c = (*c).prefixed(prefix)
	}
	if p.Cancel != nil {
		p.Cancel = &cancelProbe{
			Block:     *p.Cancel.Block.prefixed(prefix),
			Started:   *p.Cancel.Started.prefixed(prefix),
			Cancelled: *p.Cancel.Cancelled.prefixed(prefix),
		}
	}
	p.Complete = slices.Clone(p.Complete)
	for i, c := range p.Complete {
		if c.Ref["type"] == "ref/prompt" {
			p.Complete[i].Ref = map[string]string{"type": "ref/prompt", "name": prefix + c.Ref["name"]}
		}
	}
	p.Changes = p.Changes.prefixed(prefix)
	p.Updates = p.Updates.prefixed(prefix)
	return p
}

func (c *callProbe) prefixed(prefix string) *callProbe {
	if c == nil {
		return nil
	}
	named := *c
	named.Name = prefix + c.Name
	named.Stop = c.Stop.prefixed(prefix)
	return &named
}

func (c *changeProbe) prefixed(prefix string) *changeProbe {
	if c == nil {
		return nil
	}
	named := *c
	named.Add = *c.Add.prefixed(prefix)
	named.Use = c.Use.prefixed(prefix)
	named.Remove = c.Remove.prefixed(prefix)
	if c.Kind != "resources" {
		named.Item = prefix + c.Item
	}
	return &named
}

func (u *updateProbe) prefixed(prefix string) *updateProbe {
	if u == nil {
		return nil
	}
	return &updateProbe{URI: u.URI, Touch: *u.Touch.prefixed(prefix)}
}

func prefixAll(names []string, prefix string) []string {
	if names == nil {
		return nil
	}
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = prefix + n
	}
	return all
}
