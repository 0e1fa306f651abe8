// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageURIs(t *testing.T) {
	for tool, want := range map[string][]string{
		`{"name":"a"}`: nil,
		`{"_meta":{"ui":{"resourceUri":"ui://a/x.html","visibility":["app"]}}}`:                                            {"ui://a/x.html"},
		`{"_meta":{"ui/resourceUri":"ui://a"}}`:                                                                            {"ui://a"},
		`{"_meta":{"openai/outputTemplate":"UI://a"}}`:                                                                     {"UI://a"},
		`{"_meta":{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://a","openai/outputTemplate":"ui://b"}}`:             {"ui://a", "ui://b"},
		`{"_meta":{"ui":{"resourceUri":"file:///etc/passwd"},"x":{"resourceUri":"ui://a"}},"ui":{"resourceUri":"ui://a"}}`: nil,
		`{"_meta":{"ui":{"resourceUri":7},"ui/resourceUri":null}}`:                                                         nil,
		`{"_meta":"ui://a"}`:                                                    nil,
		`{"_meta":{"ui":{"resourceUri":"ui:a.html"}}}`:                          {"ui:a.html"},
		`{"_meta":{"ui":{"resourceUri":"ui:\u002f/a","resourceUri":"ui://b"}}}`: {"ui://a", "ui://b"},
	} {
		if diff := cmp.Diff(want, PageURIs([]byte(tool))); diff != "" {
			t.Errorf("%s: %s", tool, diff)
		}
	}
}

// The definition of a page has all of its content but the URI, which a gateway may change.
func TestPageOf(t *testing.T) {
	d := NewDigester([]string{"/_meta/build"})
	page := func(result string) Digest {
		definition, ok := PageOf([]byte(result))
		if !ok {
			t.Errorf("%s has no page", result)
		}
		return d.Of(definition)
	}
	const one = `{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>","_meta":{"ui":{"csp":{}},"build":1}}],"ttlMs":5}`
	for _, same := range []string{
		`{"resultType":"complete","contents":[{"text":"\u003cp>","uri":"ui://a/x","_meta":{"build":2,"ui":{"csp":{}}},"mimeType":"text/html"}]}`,
	} {
		if page(same) != page(one) {
			t.Errorf("%s is another page than %s", same, one)
		}
	}
	for _, other := range []string{
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<q>","_meta":{"ui":{"csp":{}}}}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>"}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>","_meta":{"ui":{"csp":{"connectDomains":["https://x"]}}}}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","blob":"PHA+","_meta":{"ui":{"csp":{}}}}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>","text":"<q>","_meta":{"ui":{"csp":{}}}}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>","_meta":{"ui":{"csp":{}}}},{"uri":"ui://y","text":"<q>"}]}`,
		`{"contents":[],"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<q>"}]}`,
		`{"contents":[{"uri":"ui://x","mimeType":"text/html","text":"<p>","_meta":{"ui":{"csp":{}}}}],"contents":[{"uri":"ui://x","text":"<q>"}]}`,
		`{"contents":[]}`, `{"contents":null}`, `{"contents":["x"]}`,
	} {
		if page(other) == page(one) {
			t.Errorf("%s is the same page as %s", other, one)
		}
	}
	if _, ok := PageOf([]byte(`{"resultType":"input_required","inputRequests":{}}`)); ok {
		t.Error("a question is a page")
	}
}

// A page is offered or held, and never replaced.
func TestJudgePage(t *testing.T) {
	d := NewDigester(nil)
	key := Key{"maps", Page, "ui://map", Plain}
	approved, changed := json.RawMessage(`{"text":"<p>\u200b"}`), json.RawMessage(`{"text":"<q>\u200b"}`)
	l := NewLock()
	l.Approve(key, d.Of(approved))
	texts := func(Digest) ([]byte, bool) { return approved, true }
	for _, tt := range []struct {
		lock   *Lock
		page   json.RawMessage
		policy Policy
		state  State
		held   bool
	}{
		{nil, changed, Policy{}, Unpinned, false},
		{l, approved, Policy{}, Approved, false},
		{l, changed, Policy{}, Changed, true},
		{l, changed, Policy{Changed: Hold}, Changed, true},
		{l, changed, Policy{Changed: Warn}, Changed, false},
		{l, changed, Policy{AllowPages: true}, Changed, false},
		{l, changed, Policy{AllowNew: true, AllowHidden: true}, Changed, true},
		{NewLock(), changed, Policy{}, New, true},
		{NewLock(), changed, Policy{AllowNew: true}, New, false},
		{NewLock(), changed, Policy{AllowPages: true}, New, false},
	} {
		v := tt.lock.Judge(key, tt.page, d, texts, tt.policy)
		if v.State != tt.state || v.Held() != tt.held || !v.Held() && string(v.Use) != string(tt.page) {
			t.Errorf("%+v: %+v", tt, v)
		}
	}
}
