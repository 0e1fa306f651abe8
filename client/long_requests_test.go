// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// Requests of all lengths arrive whole, with and without line breaks between their
// tokens, even if the server reads slowly and several are queued.
func TestLongRequests(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for name, dial := range map[string]func(t *testing.T, take func(m *mcp.Message)) *client.Client{
			"pipe": func(t *testing.T, take func(m *mcp.Message)) *client.Client {
				c, _ := dialLines(t, &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
					take(&x.Msg)
					x.Polite()
				}}}, client.Config{})
				return c
			},
			"HTTP": func(t *testing.T, take func(m *mcp.Message)) *client.Client {
				return dialHTTP(t, &faultyserver.HTTP{Modern: modern, Sessions: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
					take(&x.Msg)
					x.Polite()
				}}}, client.Config{})
			},
		} {
			breaks := map[string][]string{"pipe": {"\r", " ", "\n", " "}}[name] // what each line break is replaced with
			t.Run(fmt.Sprintf("%s, modern %v", name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { sendLong(t, dial, breaks) })
			})
		}
	}
}

func sendLong(t *testing.T, dial func(t *testing.T, take func(m *mcp.Message)) *client.Client, breaks []string) {
	t.Helper()
	var mu sync.Mutex
	got, want := make(map[string]string), make(map[string]string)
	c := dial(t, func(m *mcp.Message) {
		name, _ := m.Params.Text(mcp.FieldName)
		mu.Lock()
		got[name] = string(m.Params.Raw(mcp.FieldArguments))
		mu.Unlock()
		time.Sleep(time.Second)
	})
	var calls []*running
	for i, size := range []int{100, 20 << 10, 10, 200 << 10, 20, 30 << 10, 100 << 10, 33 << 10} {
		name, gap := fmt.Sprintf("tool %d", i), [...]string{"\r\n", ""}[i%2]
		args := "{" + gap + `"x":` + gap + `"` + strings.Repeat(`points\n`, size/8) + `"}`
		params := "{" + gap + `"name":"` + name + `",` + gap + `"arguments":` + args + gap + "}"
		want[name] = strings.NewReplacer(breaks...).Replace(args)
		calls = append(calls, launch(t, c, request(t, "tools/call", params), &recorder{}))
		synctest.Wait()
	}
	for _, call := range calls {
		call.wantResult(t, `{"content":[]}`)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the server got %.300v, want %.300v", got, want)
	}
}
