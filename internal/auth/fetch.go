// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

const (
	// fetchTimeout bounds one request to an issuer.
	fetchTimeout = 10 * time.Second

	// maxDocument bounds a document of an issuer. Metadata have a few KiB, and so have sets
	// of keys with certificates.
	maxDocument = 256 << 10
)

// fetcher fetches the keys of one issuer. It belongs to one goroutine.
type fetcher struct {
	issuer  string
	client  *http.Client
	isFixed bool // keysURL is configured, and there are no metadata
	keyless bool // the issuer may have no keys

	keysURL string    // of the metadata, or ""
	read    time.Time // when the metadata were read
	stale   bool      // they have to be read again
}

func newFetcher(cfg *Issuer, transport http.RoundTripper) *fetcher {
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: fetchTimeout}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           2,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	client := &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &fetcher{
		issuer: cfg.URL, client: client, keysURL: cfg.KeysURL, isFixed: cfg.KeysURL != "", keyless: cfg.Introspect != nil,
	}
}

// errNoKeys reports metadata of an issuer that publishes no keys.
var errNoKeys = errors.New("there is no jwks_uri")

// keys fetches the keys, after the metadata if these are unknown or, unless keysOnly is set,
// old. Old metadata are used if they cannot be fetched. It returns how long the keys may be
// kept.
func (f *fetcher) keys(ctx context.Context, keysOnly bool) ([]*key, time.Duration, error) {
	if age := time.Since(f.read); f.keysURL == "" || (f.stale || age >= keepMetadata) && !keysOnly && !f.isFixed {
		at, err := f.discover(ctx)
		switch {
		case f.keysURL == "" && f.keyless && errors.Is(err, errNoKeys):
			return nil, keepMetadata, nil
		case err == nil:
			f.keysURL, f.read, f.stale = at, time.Now(), false
		case f.keysURL == "" || age >= keepLastGood:
			return nil, 0, err
		}
	}
	raw, header, err := f.get(ctx, f.keysURL)
	if err == nil {
		keys, invalid := parseKeySet(raw)
		if invalid == nil {
			return keys, life(header), nil
		}
		err = fmt.Errorf("%s: %w", f.keysURL, invalid)
	}
	f.stale = true // the keys may have moved
	return nil, 0, err
}

// discover returns the URL of the keys, from the metadata of the issuer (RFC 8414, and OpenID
// Connect Discovery, in the order of the MCP specification). A place without metadata may
// answer with an error, a redirect to a page, or the page itself: it may be at the next place.
func (f *fetcher) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(f.issuer)
	if err != nil {
		return "", errors.New("the issuer is not a URL")
	}
	var tried []error
	for _, place := range oauth.MetadataURLs(issuer) {
		at, err := f.keysAt(ctx, place)
		if _, isMissing := errors.AsType[*missingError](err); !isMissing {
			return at, err
		}
		tried = append(tried, err)
	}
	return "", fmt.Errorf("the issuer has no metadata: %w", joined(tried))
}

// keysAt returns the URL of the keys in the metadata at a place. The error is a *missingError
// if there are no metadata.
func (f *fetcher) keysAt(ctx context.Context, place string) (string, error) {
	raw, _, err := f.get(ctx, place)
	if err != nil {
		return "", err
	}
	var doc struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(raw, &doc); {
	case err != nil || doc.Issuer == "":
		return "", &missingError{place, "it is not metadata of an authorization server"}
	case doc.Issuer != f.issuer:
		return "", fmt.Errorf("%s: the issuer is %.200q, not %q", place, doc.Issuer, f.issuer)
	case doc.Keys == "":
		return "", fmt.Errorf("%s: %w", place, errNoKeys)
	}
	return doc.Keys, nil
}

// joined returns errors as one, in one line.
func joined(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// missingError is a response without the document that was requested. A server that is down
// has another error.
type missingError struct{ at, why string }

// Error names the URL and the reason.
func (e *missingError) Error() string { return e.at + ": " + e.why }

// statusError returns the error of a response with a status other than 200.
func statusError(at string, status int) error {
	switch {
	case status >= 300 && status < 400:
		return &missingError{at, fmt.Sprintf("status %d, a redirect, which is not followed", status)}
	case status >= 500:
		return fmt.Errorf("%s: status %d", at, status)
	default:
		return &missingError{at, fmt.Sprintf("status %d", status)}
	}
}

// get fetches a JSON document. It sends nothing that belongs to a user.
func (f *fetcher) get(ctx context.Context, at string) ([]byte, http.Header, error) {
	if !isSecureURL(at) {
		return nil, nil, fmt.Errorf("%.200q: an https URL is needed; http is for this machine only", at)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%.200q: it is not a URL", at)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, statusError(at, resp.StatusCode)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") && !f.isFixed { // some send keys as text
		return nil, nil, &missingError{at, fmt.Sprintf("the content type is %.80q, not application/json", media)}
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", at, err)
	case len(raw) > maxDocument:
		return nil, nil, fmt.Errorf("%s: the document has more than %d KiB", at, maxDocument>>10)
	}
	return raw, resp.Header, nil
}

// isSecureURL reports whether a text is a URL whose content cannot be changed on the way:
// https, or http to this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
