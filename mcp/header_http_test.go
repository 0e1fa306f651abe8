// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// Encoded values survive real HTTP, which trims, folds and rejects: the headers of a
// call arrive with the values that CheckParamHeaders expects, under the names that it
// uses.
//
// H6+ 2026-07-28 basic/transports/streamable-http: "servers MUST decode an encoded
// Mcp-Name or Mcp-Param-{Name} value before comparing it to the corresponding request
// body value"
func TestHeadersSurviveHTTP(t *testing.T) {
	schema := `{"properties":{"region":{"type":"string","x-mcp-header":"my-REGION"},"n":{"type":"integer","x-mcp-header":"N_1"}}}`
	headers, err := ParamHeaders([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	var arguments []byte // of the current call
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := CheckParamHeaders(headers, r.Header, arguments); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		if name, err := DecodeHeaderValue(r.Header.Get("Mcp-Name")); err != nil || name != r.URL.Query().Get("name") {
			http.Error(w, "the name arrived as "+name, http.StatusConflict)
		}
	}))
	defer srv.Close()
	r := jsontest.Seeded(11)
	for range 40 {
		text := jsontest.RandomText(r)
		arguments = append(jsonscan.AppendString([]byte(`{"n":4.2e1,"region":`), text), '}')
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		query := req.URL.Query()
		query.Set("name", text)
		req.URL.RawQuery = query.Encode()
		req.Header.Set("Mcp-Name", EncodeHeaderValue(text))
		for _, h := range headers {
			value, _, err := h.Value(arguments)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(h.Header(), EncodeHeaderValue(value))
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d", text, res.StatusCode)
		}
	}
}
