// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build memory

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// hostileReaders ask for hostileText bytes each.
const (
	hostileReaders = 1000
	hostileText    = 15 << 20
)

// The default limits keep a gateway within 1 GiB of memory while 1000 clients of four
// principals ask for 15 MiB each and read 16 KiB a second. The gateway runs under
// ulimit -v, with 1 GiB more address space than it reserves when it starts. The test has
// a build tag, because it takes the whole machine for 20 seconds.
func TestAddressSpaceSuffices(t *testing.T) {
	program := filepath.Join(t.TempDir(), "signalbox")
	// The race detector needs more address space than any limit leaves.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	backend := eventServer(t, hostileText)
	const gib = 1 << 20 // in KiB
	limit := startLimited(t, program, backend, "").memory("VmSize") + gib
	g := startLimited(t, program, backend, fmt.Sprintf("ulimit -v %d && ", limit))
	g.await("the backend answers", func() bool { status, _ := g.call(honestToken, "b__small"); return status == http.StatusOK })

	var first, all sync.WaitGroup
	var conns []net.Conn
	for i := range hostileReaders {
		c := g.sendAs("token-of-slow-readers-"+strconv.Itoa(i%4), http.MethodPost, "/mcp", commandtest.CallHeader("b__large"), commandtest.CallOf("b__large"))
		conns = append(conns, c)
		first.Add(1)
		all.Go(func() { readSlowly(c, &first) })
	}
	first.Wait()
	if status, text := g.do(http.MethodGet, "/healthz", honestToken, nil, ""); status.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %d: %s", status.StatusCode, text)
	}
	if peak := g.memory("VmHWM"); peak > gib {
		t.Errorf("the gateway has had %d KiB, want at most %d", peak, gib)
	} else {
		t.Logf("peak of resident memory: %d MiB; address space: %d of %d MiB", peak>>10, g.memory("VmPeak")>>10, limit>>10)
	}
	for _, c := range conns {
		c.Close()
	}
	all.Wait()
	g.await("a call is answered again", func() bool { status, _ := g.call(honestToken, "b__small"); return status == http.StatusOK })
}

// startLimited starts a program with the default limits in a shell that runs first before it.
func startLimited(t *testing.T, program, backend, first string) *boundedGateway {
	t.Helper()
	tokens := "{principal: honest, env: HONEST}"
	environ := append(os.Environ(), "HONEST="+honestToken)
	for i := range 4 {
		tokens += fmt.Sprintf(", {principal: slow%d, env: SLOW%[1]d}", i)
		environ = append(environ, fmt.Sprintf("SLOW%d=token-of-slow-readers-%[1]d", i))
	}
	return startIn(t, environ, `
listen: 127.0.0.1:0
auth: {tokens: [`+tokens+`]}
mcpServers: {b: {url: `+strconv.Quote(backend)+`}}
`, "sh", "-c", first+`exec "$0" serve`, program)
}

// readSlowly reads 16 KiB a second of a response until the connection is closed, and
// calls first.Done when the response has begun.
func readSlowly(c net.Conn, first *sync.WaitGroup) {
	_, err := bufio.NewReaderSize(c, 16).Peek(1)
	first.Done()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	buf := make([]byte, 16<<10)
	for err == nil {
		<-again.C
		_, err = c.Read(buf)
	}
}
