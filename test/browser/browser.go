// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser signs a person in on web pages, for tests: it follows redirects, keeps
// cookies, fills in forms and presses their first button, until a page has no form. It sends
// the headers with which servers tell a person's click from another page's request.
package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// Browser is the browser of one person. It must not be used concurrently.
type Browser struct {
	// Answers fill in the fields of forms, by their names. A required field without an answer
	// is an error.
	Answers map[string]string

	// Press is the value of the button to press. If a form has no such button, or Press is
	// empty, the first one is pressed.
	Press string

	// Until reports whether to stop at an address, before it is requested. If it is nil,
	// every address is requested.
	Until func(*url.URL) bool

	// Transport sends the requests. If it is nil, http.DefaultTransport does.
	Transport http.RoundTripper

	// Visited are the addresses that were requested, in order.
	Visited []string

	jar http.CookieJar
}

// New returns a browser without cookies, of a person with this name.
func New(name string) *Browser {
	return &Browser{Answers: map[string]string{"login": name, "username": name, "password": name}}
}

// Page is a page, or an address at which Until stopped.
type Page struct {
	URL    *url.URL
	Status int // 0 at an address that was not requested
	Header http.Header
	Body   string
}

const (
	maxRedirects = 20
	maxForms     = 10
	maxPage      = 1 << 20
)

// Open requests an address, follows redirects, and returns the page. Nothing is pressed.
func (b *Browser) Open(ctx context.Context, address string) (*Page, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return b.visit(ctx, http.MethodGet, u, nil, nil)
}

// SignIn opens an address, submits the form of each page, and returns the first page
// without one.
func (b *Browser) SignIn(ctx context.Context, address string) (*Page, error) {
	p, err := b.Open(ctx, address)
	for range maxForms {
		if err != nil || p.Status == 0 || !p.HasForm() {
			return p, err
		}
		p, err = b.Submit(ctx, p)
	}
	return nil, errors.Join(err, fmt.Errorf("browser: after %d forms there is another, at %s", maxForms, p.URL))
}

// visit sends a request and follows redirects as a browser does: with GET, except after 307
// and 308.
func (b *Browser) visit(ctx context.Context, method string, u *url.URL, form url.Values, from *url.URL) (*Page, error) {
	for range maxRedirects {
		if u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("browser: the address %s is not of the web", u)
		}
		if b.Until != nil && b.Until(u) {
			return &Page{URL: u}, nil
		}
		p, err := b.send(ctx, method, u, form, from)
		if err != nil {
			return nil, err
		}
		at := p.Header.Get("Location")
		if p.Status < 300 || p.Status > 399 || at == "" {
			return p, nil
		}
		next, err := u.Parse(at)
		if err != nil {
			return nil, fmt.Errorf("browser: a redirect at %s: %w", u, err)
		}
		if p.Status != http.StatusTemporaryRedirect && p.Status != http.StatusPermanentRedirect {
			method, form = http.MethodGet, nil
		}
		u = next
	}
	return nil, fmt.Errorf("browser: more than %d redirects, the last to %s", maxRedirects, u)
}

func (b *Browser) send(ctx context.Context, method string, u *url.URL, form url.Values, from *url.URL) (*Page, error) {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	b.describe(req, from)
	b.Visited = append(b.Visited, u.String())
	res, err := b.client().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err != nil {
		return nil, err
	}
	return &Page{URL: u, Status: res.StatusCode, Header: res.Header, Body: string(text)}, nil
}

// describe adds what a browser says about a request that a person makes on a page.
func (b *Browser) describe(req *http.Request, from *url.URL) {
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Sec-Fetch-User", "?1")
	site := "none"
	if from != nil {
		site = "cross-site"
		if from.Scheme == req.URL.Scheme && from.Host == req.URL.Host {
			site = "same-origin"
		}
	}
	req.Header.Set("Sec-Fetch-Site", site)
	if req.Method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", from.Scheme+"://"+from.Host)
	}
}

func (b *Browser) client() *http.Client {
	if b.jar == nil {
		b.jar, _ = cookiejar.New(nil) // fails only with options
	}
	return &http.Client{
		Transport: b.Transport, Jar: b.jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var (
	formTag  = regexp.MustCompile(`(?is)<form\b([^>]*)>(.*?)</form>`)
	fieldTag = regexp.MustCompile(`(?is)<(input|button)\b([^>]*)>`)
	attrs    = regexp.MustCompile(`(?is)([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?`)
)

// HasForm reports whether there is a form on the page.
func (p *Page) HasForm() bool { return formTag.MatchString(p.Body) }

// attributes returns the attributes of a tag. One without a value has its name as the value.
func attributes(tag string) map[string]string {
	all := make(map[string]string)
	for _, m := range attrs.FindAllStringSubmatch(tag, -1) {
		name := strings.ToLower(m[1])
		value := html.UnescapeString(m[2] + m[3] + m[4])
		if !strings.Contains(m[0], "=") {
			value = name
		}
		all[name] = value
	}
	return all
}

// Submit fills in the first form of a page and presses a button of it.
func (b *Browser) Submit(ctx context.Context, p *Page) (*Page, error) {
	m := formTag.FindStringSubmatch(p.Body)
	if m == nil {
		return nil, fmt.Errorf("browser: no form at %s", p.URL)
	}
	form := attributes(m[1])
	to, err := p.URL.Parse(form["action"])
	if err != nil {
		return nil, fmt.Errorf("browser: a form at %s: %w", p.URL, err)
	}
	values, err := b.fill(m[2])
	if err != nil {
		return nil, fmt.Errorf("browser: the form at %s: %w", p.URL, err)
	}
	if !strings.EqualFold(form["method"], http.MethodPost) {
		to.RawQuery = values.Encode()
		return b.visit(ctx, http.MethodGet, to, nil, p.URL)
	}
	return b.visit(ctx, http.MethodPost, to, values, p.URL)
}

// fill returns the values of the fields and of the pressed button.
func (b *Browser) fill(fields string) (url.Values, error) {
	values := make(url.Values)
	var buttons []map[string]string
	for _, m := range fieldTag.FindAllStringSubmatch(fields, -1) {
		field := attributes(m[2])
		name := field["name"]
		if strings.EqualFold(m[1], "button") || strings.EqualFold(field["type"], "submit") {
			buttons = append(buttons, field)
			continue
		}
		value := field["value"]
		if answer, ok := b.Answers[name]; ok && !strings.EqualFold(field["type"], "hidden") {
			value = answer
		}
		if _, required := field["required"]; required && value == "" {
			return nil, fmt.Errorf("no answer for the field %q", name)
		}
		if name != "" {
			values.Set(name, value)
		}
	}
	if len(buttons) == 0 {
		return values, nil
	}
	pressed := buttons[0]
	for _, button := range buttons {
		if b.Press != "" && button["value"] == b.Press {
			pressed = button
		}
	}
	if pressed["name"] != "" {
		values.Set(pressed["name"], pressed["value"])
	}
	return values, nil
}
