// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func app(name, uri string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":%q}}}`, name, uri)
}

// Two backends with one URI: each is offered, listed and found under its own.
func TestNamesOfTwoBackends(t *testing.T) {
	var in []Backend
	for _, name := range []string{"a", "b"} {
		in = append(in, backend(name).with(Tools, app("show", "ui://page")).with(Resources, resource("ui://page"), resource("file:///page")).with(Templates, template("ui://at/{city}"), template("file:///{x}")))
	}
	c := Build(in, Options{})
	for k, want := range map[Kind]string{
		Resources: "ui://a/page file:///page ui://b/page",
		Templates: "ui://a/at/{city} file:///{x} ui://b/at/{city}",
	} {
		if got := names(c, k); got != want {
			t.Errorf("%s: %s, want %s", k, got, want)
		}
	}
	for _, list := range []struct {
		kind Kind
		want string
	}{
		{Tools, `{"name":"b__show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://b/page"}}}`},
		{Resources, `{"uri":"ui://b/page","name":"r"}`},
		{Templates, `{"uriTemplate":"ui://b/at/{city}","name":"t"}`},
	} {
		res, err := c.List(list.kind, "")
		if err != nil || !strings.Contains(string(res.Bytes()), list.want) {
			t.Errorf("%s: %v, %s has no %s", list.kind, err, res.Bytes(), list.want)
		}
	}
	wantFound(t, c, map[string]string{
		"ui://a/page": "a ui://page", "ui://b/page": "b ui://page",
		"ui://a/at/Bern": "a ui://at/Bern", "ui://b/at/Bern": "b ui://at/Bern",
		"ui://b/never-listed": "b ui://never-listed",
		"file:///page":        "a file:///page",
		"ui://page":           "", "ui://at/Bern": "", "ui://c/page": "", // several, several, no such backend
	})
}

// wantFound compares what the Catalog finds for URIs with "backend own", or "" for nothing.
func wantFound(t *testing.T, c *Catalog, want map[string]string) {
	t.Helper()
	for uri, want := range want {
		got := ""
		e, ok := c.Resource(uri)
		if ok {
			got = e.BackendName + " " + e.Own
			if e.Name != uri && e.Own != uri {
				t.Errorf("%s is found as %s, %s", uri, e.Name, e.Own)
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", uri, got, want)
		}
	}
}

// A URI as its backend writes it is taken where one backend alone has it.
func TestBareNames(t *testing.T) {
	a := backend("weather").with(Resources, resource("ui://weather/view"), resource("ui://shared")).with(Templates, template("ui://{city}/now"))
	b := backend("b").with(Tools, app("show", "ui://used"), app("two", "ui://shared")).with(Resources, resource("ui://weather/other"), resource("ui://b/x"), resource("ui://x"))
	none := ""
	c := backend("c").with(Resources, resource("ui://plain"), resource("ui://b/taken"))
	c.Rules.Prefix = &none
	all := Build([]Backend{a, b, c}, Options{})
	wantFound(t, all, map[string]string{
		"ui://used":           "b ui://used",
		"ui://b/used":         "b ui://used",
		"ui://plain":          "c ui://plain",
		"ui://b/taken":        "c ui://b/taken", // an empty prefix gives up the guarantee
		"ui://shared":         "",
		"ui://weather/shared": "weather ui://shared",
		"ui://b/shared":       "b ui://shared",

		"ui://weather/view":         "weather ui://weather/view", // its own, and it lists no ui://view
		"ui://weather/weather/view": "weather ui://weather/view",
		"ui://weather/gone":         "weather ui://gone",
		"ui://weather/other":        "weather ui://other", // never of another backend than that of the label
		"ui://b/weather/other":      "b ui://weather/other",
		"ui://b/x":                  "b ui://x", // listed both ways
		"ui://b/b/x":                "b ui://b/x",

		"ui://Bern/now":         "weather ui://Bern/now",
		"ui://weather/Bern/now": "weather ui://Bern/now",
		"ui://nothing":          "",
		"UI://used":             "",
	})
	wantFound(t, Build([]Backend{b}, Options{}), map[string]string{"ui://nothing": "b ui://nothing", "ui://b/nothing": "b ui://nothing"})
	if e, ok := Build([]Backend{b}, Options{}).Resource("ui://nothing"); !ok || e.Name != "ui://b/nothing" {
		t.Errorf("%+v", e)
	}

	p := all.Profile(&Profile{Backends: []string{"b"}})
	wantFound(t, p, map[string]string{
		"ui://shared":        "b ui://shared",        // alone here
		"ui://weather/other": "b ui://weather/other", // here the label is of no backend
		"ui://plain":         "", "ui://weather/view": "", "ui://b/z": "b ui://z",
	})
}

// What a view has not, it does not find, by no form of the URI. What is in no list, it has if it is
// asked, and reports that.
func TestNamesInViews(t *testing.T) {
	a := backend("a").with(Tools, app("show", "ui://used")).with(Resources, resource("ui://page"), resource("ui://secret"), resource("ui://both")).with(Templates, template("ui://at/{x}"))
	b := backend("b").with(Resources, resource("ui://both"), resource("ui://a/page"))
	c := Build([]Backend{a, b}, Options{})
	hidden := map[string]bool{"ui://a/secret": true, "ui://a/both": true, "ui://a/at/{x}": true, "a__show": true}
	allow := func(e *Entry) bool { return !hidden[e.Name] }
	var asked []string
	may := map[string]bool{"ui://a/open": true, "ui://a/secret": true}
	v := c.PolicyView(allow, func(e *Entry) bool { asked = append(asked, e.Name); return may[e.Name] })
	wantFound(t, v, map[string]string{
		"ui://a/page": "a ui://page", "ui://page": "a ui://page",
		"ui://a/secret": "", "ui://secret": "",
		"ui://a/both": "", "ui://both": "b ui://both", // that of a does not count
		"ui://a/at/Bern": "", "ui://at/Bern": "",
		"ui://a/used": "", "ui://used": "",
		"ui://a/open": "a ui://open", "ui://open": "",
		"ui://a/closed": "",
	})
	for _, uri := range []string{"ui://secret", "ui://a/secret"} {
		if !v.Hides(Resources, uri) || c.Hides(Resources, uri) {
			t.Errorf("%s: hidden is %t in the view, %t in the whole", uri, v.Hides(Resources, uri), c.Hides(Resources, uri))
		}
	}
	wantFound(t, c.View(allow), map[string]string{"ui://a/page": "a ui://page", "ui://a/open": "", "ui://a/secret": ""})
	// Nothing of a backend that a client sees nothing of changes what is found.
	only := c.PolicyView(func(e *Entry) bool { return e.BackendName == "b" }, func(e *Entry) bool { return e.BackendName == "b" })
	wantFound(t, only, map[string]string{"ui://a/page": "b ui://a/page", "ui://a/open": "", "ui://b/open": "b ui://open"})
	if len(asked) == 0 {
		t.Error("the view was not asked about what is in no list")
	}
}

// A resource that is held is not reached as one that is in no list.
func TestHeldNames(t *testing.T) {
	a := backend("a").with(Resources, resource("ui://held"), resource("ui://fine"))
	c := Build([]Backend{a, backend("b")}, Options{Pin: func(_ string, _ Kind, item json.RawMessage) Pin {
		return Pin{Item: item, Held: strings.Contains(string(item), "held"), Problem: "p"}
	}})
	wantFound(t, c, map[string]string{"ui://a/held": "", "ui://held": "", "ui://a/fine": "a ui://fine"})
}

func TestReferencesOfNames(t *testing.T) {
	c := Build([]Backend{
		backend("a").with(Templates, template("ui://{x}"), template("ui://one/{x}")),
		backend("b").with(Templates, template("ui://{x}")),
	}, Options{})
	for uri, want := range map[string]string{
		"ui://a/{x}": "a ui://{x}", "ui://b/{x}": "b ui://{x}", "ui://a/one/{x}": "a ui://one/{x}", "ui://one/{x}": "a ui://one/{x}", "ui://{x}": "",
	} {
		params, err := mcp.ParseObject([]byte(fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q}}`, uri)))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if e, field, ok := c.Reference(&params); ok && field == mcp.FieldRefURI {
			got = e.BackendName + " " + e.Own
		}
		if got != want {
			t.Errorf("%s is %q, want %q", uri, got, want)
		}
	}
}

// C9: whatever backends list, what clients are offered leads back to the backend and its own URI,
// and no two backends share one.
func TestNamesLeadBack(t *testing.T) {
	pieces := []string{"b0", "b1", "", "x", "%62", "{v}", "/", "//", "?q=1", "#f", "B0", "ui://x"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		word := func() string {
			uri := []string{"ui://", "skill://", "UI://", "ui:", "skill:/"}[r.IntN(5)]
			for range r.IntN(4) {
				uri += pieces[r.IntN(len(pieces))] + "/"[:r.IntN(2)]
			}
			return uri
		}
		var in []Backend
		for i := range 1 + r.IntN(3) {
			b := backend(fmt.Sprint("b", i))
			for range r.IntN(4) {
				b = b.with(Resources, resource(word()))
			}
			for range r.IntN(3) {
				b = b.with(Templates, template(word()))
			}
			for n := range r.IntN(3) {
				b = b.with(Tools, app(fmt.Sprint("t", n), word()))
			}
			in = append(in, b)
		}
		c := Build(in, Options{})
		for i, b := range in {
			own := make(map[string]bool)
			for uri, name := range b.Names(Resources) {
				own[uri] = true
				if e, ok := c.Find(Resources, name); !ok || e.Backend != i || e.Own != uri || name != extension.OuterURI(b.Name, uri) {
					t.Errorf("seed %d: %s of %s is listed as %s: %+v", seed, uri, b.Name, name, e)
				}
			}
			for e := range c.Entries(Tools) {
				for _, uri := range e.uses {
					if e.Backend == i {
						own[uri] = true
					}
				}
			}
			for uri := range own {
				if e, ok := c.Resource(extension.OuterURI(b.Name, uri)); !ok || e.Backend != i || e.Own != uri {
					t.Errorf("seed %d: %s of %s is %+v", seed, uri, b.Name, e)
				}
			}
			// One that is in no list is never of another backend.
			uri := word()
			if e, ok := c.Resource(extension.OuterURI(b.Name, uri)); !ok || e.Backend != i {
				t.Errorf("seed %d: %s of %s, which is in no list, is %+v", seed, uri, b.Name, e)
			}
		}
	}
}

// A pattern that matches a URI only as its server writes it is reported.
func TestPatternsOfNames(t *testing.T) {
	a := backend("a").with(Resources, resource("ui://page"), resource("ui://a/page"))
	pattern := func(text string) PlacedPattern { return PlacedPattern{Place: "here", Pattern: text} }
	c := Build([]Backend{a}, Options{Patterns: []PlacedPattern{pattern("ui://pa*"), pattern("ui://a/*"), pattern("ui://none*"), pattern("*page")}})
	const want = `here: "ui://pa*" matches "ui://page", as the server writes it, and not "ui://a/page", which rules are about [SB_APP_URI]` + "\n"
	if got := problems(c); got != want || len(c.Problems()) != 1 || c.Problems()[0].Code != code.AppURI {
		t.Errorf("problems:\n%swant\n%s", got, want)
	}
}

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ name, own, want string }{
		{"ui://B/HOST/%61/../x", "ui://HOST/%61/../x", "ui://B/host/x"},
		{"ui://HOST/%61/../x", "ui://HOST/%61/../x", "ui://host/x"}, // without a label
		{"FILE:///a/../b", "FILE:///a/../b", "file:///b"},
	} {
		if got := (&Entry{Kind: Resources, Name: tt.name, Own: tt.own}).Plain(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
