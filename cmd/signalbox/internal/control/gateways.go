// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// Gateway is a running gateway of this user.
type Gateway struct {
	*Info

	Socket *http.Transport // to its socket
}

// Running returns the gateways that serve a file, those on HTTP first. The error is
// about one that does not respond. The caller closes the idle connections, with CloseIdle.
func Running(ctx context.Context, e *command.Env, file string) ([]Gateway, error) {
	var onHTTP, others []Gateway
	var silent error
	for _, path := range socketsOf(e, file) {
		socket := Transport(path)
		gateway, err := infoAt(ctx, socket)
		switch {
		case err == nil && gateway.Joinable:
			onHTTP = append(onHTTP, Gateway{gateway, socket})
		case err == nil:
			others = append(others, Gateway{gateway, socket})
		default:
			socket.CloseIdleConnections()
			if !IsGone(err) {
				silent = fmt.Errorf("the gateway at %s does not respond: %w", path, err)
			}
		}
	}
	return append(onHTTP, others...), silent
}

// CloseIdle closes the connections to gateways that are not in use.
func CloseIdle(gateways []Gateway) {
	for _, g := range gateways {
		g.Socket.CloseIdleConnections()
	}
}

// Transport returns a transport with connections to a socket only.
func Transport(path string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, path) },
	}
}

// URL returns the URL of a path on a socket, with a host that every gateway accepts.
func URL(path string) string { return "http://localhost" + path }

// StatusError is the error of a response with another HTTP status than 200.
type StatusError struct {
	Code int
	Body []byte
}

func (e *StatusError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("HTTP status %d: %s", e.Code, output.FirstLine(e.Body)), ": ")
}

// isMissing reports whether an error is that of a gateway without a path: one of an earlier
// version.
func isMissing(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code == http.StatusNotFound
}

// At decodes what the gateway of a socket has at a path. The error may be a *StatusError.
func At[T any](ctx context.Context, socket *http.Transport, path string) (value T, err error) {
	resp, err := Get(ctx, socket, URL(path), nil)
	switch {
	case err != nil:
		return value, ExplainDial(err)
	case resp.Code != http.StatusOK:
		return value, &StatusError{resp.Code, resp.Body}
	}
	return value, Decode(resp.Body, &value)
}

// infoAt returns the Info of a socket. A gateway of an earlier version does not have
// the path, and cannot be joined.
func infoAt(ctx context.Context, socket *http.Transport) (*Info, error) {
	info, err := At[Info](ctx, socket, GatewayPath)
	if isMissing(err) {
		err = nil
	}
	return &info, err
}

// StatusAt returns the status of the gateway of a socket.
func StatusAt(ctx context.Context, socket *http.Transport) (*signalbox.Status, error) {
	raw, err := At[jsontext.Value](ctx, socket, StatusPath)
	if err != nil {
		return nil, err
	}
	decoded, err := DecodeStatus(raw)
	if err != nil {
		return nil, err
	}
	return &decoded.Status, nil
}

// CallsAt returns the latest calls of the gateway of a socket.
func CallsAt(ctx context.Context, socket *http.Transport, f signalbox.CallFilter) (signalbox.CallRecords, error) {
	query := url.Values{"limit": {strconv.Itoa(f.Most)}, "method": {f.Method}, "backend": {f.Backend}, "failed": {strconv.FormatBool(f.Failed)}}
	return At[signalbox.CallRecords](ctx, socket, CallsPath+"?"+query.Encode())
}

// ToolBackendsAt returns the backend of each tool of the gateway of a socket. It is nil for a
// gateway of an earlier version.
func ToolBackendsAt(ctx context.Context, socket *http.Transport) (map[string]string, error) {
	backends, err := At[map[string]string](ctx, socket, ToolsPath)
	if isMissing(err) {
		err = nil
	}
	return backends, err
}

const (
	// definitionsTimeout is longer than signalbox.Gateway.ReadPages takes.
	definitionsTimeout = 45 * time.Second

	// maxDefinitions bounds the definitions of all servers, with the HTML of apps, and what was approved.
	maxDefinitions = 256 << 20
)

// DefinitionsAt returns what the servers of the gateway of a socket offer, compared with its lock file.
func DefinitionsAt(ctx context.Context, socket *http.Transport) (*signalbox.Definitions, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, definitionsTimeout, fmt.Errorf("no response within %v", definitionsTimeout))
	defer cancel()
	resp, err := roundTrip(ctx, socket, http.MethodGet, URL(PinsPath), nil, maxDefinitions)
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, ExplainDial(err)
	case resp.Code != http.StatusOK:
		return nil, fmt.Errorf("the running gateway responded with HTTP status %d; it may be an earlier version of Signalbox (use --alone)", resp.Code)
	case len(resp.Body) > maxDefinitions:
		return nil, fmt.Errorf("the definitions of all servers have more than %d MiB", maxDefinitions>>20)
	}
	all := new(signalbox.Definitions)
	return all, Decode(resp.Body, all)
}

// IsGone reports whether an error means that no process listens on a socket any more.
func IsGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// OldGateway describes a gateway of another version than this program.
func OldGateway(process, version, own string, background bool) string {
	end := "restart it to use the new one"
	if background {
		end = "it ends when its last client has left, and the next client starts the new one"
	}
	return fmt.Sprintf("the running gateway, process %s, is version %s, and this command is %s; %s [%s]", process, version, own, end, code.OldGateway)
}

// IsUp reports whether a backend is live, or will be with the next call.
func IsUp(b *signalbox.BackendStatus) bool {
	return b.State == "live" || b.State == "idle" || b.State == "kept"
}

// UserLists describes the lists that the users of a backend have.
func UserLists(u *signalbox.UserListsStatus) string {
	text := fmt.Sprintf("%s, %s", output.Plural(u.Users, "user"), output.Plural(u.Lists, "different list"))
	if u.Stale > 0 {
		text += fmt.Sprintf(", %d with lists from before it was lost", u.Stale)
	}
	if u.Down > 0 {
		text += fmt.Sprintf(", %d without, as it cannot be reached", u.Down)
	}
	return text
}

// ItemCounts describes the lists of a backend.
func ItemCounts(b *signalbox.BackendStatus) string {
	if b.Users != nil {
		return "lists for each user: " + UserLists(b.Users)
	}
	var counts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{b.Tools, "tool"}, {b.Resources, "resource"}, {b.Templates, "template"}, {b.Prompts, "prompt"}, {b.Skills, "skill"}} {
		if c.n > 0 {
			counts = append(counts, output.Plural(c.n, c.noun))
		}
	}
	if counts == nil {
		return "no items"
	}
	return strings.Join(counts, ", ")
}
