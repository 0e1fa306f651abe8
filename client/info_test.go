// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// An Info that is not a JSON object would corrupt each message. With one, every request
// fails, whatever the transport, even those that need no server.
func TestInfoThatIsNoObject(t *testing.T) {
	connected := errors.New("the server was asked")
	dials := map[string]func(t *testing.T, cfg client.Config) *client.Client{
		"HTTP": func(t *testing.T, cfg client.Config) *client.Client { return client.NewHTTP("http://b.test/mcp", cfg) },
		"SSE":  func(t *testing.T, cfg client.Config) *client.Client { return client.NewSSE("http://b.test/mcp", cfg) },
		"pipe": func(t *testing.T, cfg client.Config) *client.Client {
			return client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				t.Error(connected)
				return nil, connected
			}, cfg)
		},
		"command": func(t *testing.T, cfg client.Config) *client.Client {
			return client.NewCommand(client.Command{Path: "/no/such/program"}, cfg)
		},
	}
	infos := map[string]string{
		`"zoo"`:                     "not a JSON object at byte 0; send {...}",
		`{"name":"zoo","version":1`: "at byte 25",
		`{}, "x":{}`:                "at byte 2",
		`null`:                      "not a JSON object",
		` `:                         "at byte 1",
	}
	for transport, dial := range dials {
		for info, why := range infos {
			t.Run(transport+" "+info, func(t *testing.T) {
				c := dial(t, client.Config{Name: "b", Info: []byte(info), Transport: roundTripper(func(*http.Request) (*http.Response, error) {
					t.Error(connected)
					return nil, connected
				})})
				defer c.Close()
				for method, params := range map[string]string{
					"tools/call":                       `{"name":"echo"}`,
					"logging/setLevel":                 `{"level":"info"}`,
					"notifications/roots/list_changed": `{}`,
					"subscriptions/listen":             `{"notifications":{}}`,
				} {
					_, err := within(t, c, request(t, method, params), &recorder{})
					wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "Config.Info is not usable: ")
					wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, why)
				}
				_, err := c.Probe(t.Context())
				wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, why)
			})
		}
	}
}

// Info identifies requests without a client. The default is used if it is empty.
func TestInfoForClientsWithoutOne(t *testing.T) {
	const ours = `{"name":"signalbox","version":"dev"}`
	for info, want := range map[string]string{
		``:                                   ours,
		`{"name":"zoo"}`:                     `{"name":"zoo"}`,
		"{\"name\" :\n\"zoo\",\"other\":[]}": "{\"name\" :\n\"zoo\",\"other\":[]}",
	} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true}
			req := echo(t)
			req.Client = nil
			if _, err := within(t, dialHTTP(t, s, client.Config{Info: []byte(info)}), req, &recorder{}); err != nil {
				t.Fatal(err)
			}
			for _, seen := range append(s.Seen(), last(s, "tools/call")) {
				m, err := mcp.Parse([]byte(seen.Body), mcp.Limits{})
				if got := string(m.Params.Raw(mcp.MetaClientInfo)); err != nil || got != want {
					t.Errorf("called itself %s, %v; want %s", got, err, want)
				}
			}
		})
	}
}
