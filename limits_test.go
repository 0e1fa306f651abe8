// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// With "firstList: none" the first list waits for a backend however long it takes.
func TestFirstListWithoutLimit(t *testing.T) {
	const slow = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) {
				<-time.After(slow)
				x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
			},
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Limits.FirstList, cfg.Limits.CallIdle, cfg.Limits.CallMax = -1, -1, -1
		g, err := signalbox.New(cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		began := time.Now()
		req, err := mcp.NewRequest("tools/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Serve(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < slow {
			t.Errorf("the first list came after %v, without the backend: %s", took, res.Bytes())
		}
	})
}

// With "drain.timeout: none" the calls to a backend that a reload removes may take any
// time.
func TestReloadWithoutDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list":      func(x *faultyserver.Exchange) { x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`) },
			"tools/call":      func(x *faultyserver.Exchange) { close(entered); <-release; x.Result(`{"content":[]}`) },
			http.MethodDelete: func(x *faultyserver.Exchange) { x.Status(http.StatusOK, "", "") },
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Drain.Timeout, cfg.Limits.CallIdle, cfg.Limits.CallMax = -1, -1, -1
		g, err := signalbox.New(cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		synctest.Wait()
		called := make(chan struct{})
		go func() { // ends with the call
			defer close(called)
			callTool(t, g, "b0__x")
		}()
		<-entered
		without := cfg
		without.Servers = nil
		if err := g.Reload(t.Context(), without); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		close(release)
		<-called
	})
}
