// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// unit is one backend at work: its configuration, the client that speaks to it,
// and what it offers. A reload keeps the units whose configuration stayed.
type activeBackend struct {
	*backend.Backend

	srv     config.Server
	limits  config.Limits
	taskIDs *taskIDs
	client  *client.Client // nil for a backend in this process
	cancel  context.CancelFunc
	done    chan struct{} // closed when the backend is no longer followed
}

// start makes a unit of a configured server and follows it. last is what the server
// offered until now, or nil.
func (g *Gateway) start(srv config.Server, limits config.Limits, last *backend.Offer) *activeBackend {
	b := &activeBackend{srv: srv, limits: limits}
	cfg := g.clientConfig(&srv, limits)
	// The Backend is there before anything is asked.
	cfg.Announced = func(scope *mcp.Scope, ended bool) { g.noteListsChanged(b, scope, ended) }
	b.client = dial(&srv, cfg)
	return g.follow(b, b.client, last)
}

// startInProcess makes a unit of a Handler in this process.
func (g *Gateway) startInProcess(p InProcess, limits config.Limits) *activeBackend {
	b := &activeBackend{srv: config.Server{Name: p.Name, Prefix: p.Prefix}, limits: limits}
	return g.follow(b, p.Handler, nil)
}

// apart wants each backend to have a name of its own, by which reloads and
// catalogs know it, and a prefix that lets none take names of another. Two entries of
// one file have been compared by then.
func checkNames(cfg *config.Config, inProcess []InProcess) error {
	others := slices.DeleteFunc(slices.Clone(cfg.Servers), func(s config.Server) bool { return s.Disabled })
	var problems Problems
	for _, p := range inProcess {
		own := config.Server{Name: p.Name, Prefix: p.Prefix}
		for i := range others {
			if others[i].Name == p.Name {
				problems = append(problems, config.Problem{
					Path:    "mcpServers." + p.Name,
					Message: "duplicate backend name " + strconv.Quote(p.Name) + ": an in-process backend has it",
					Hint:    "give one of them another name",
				})
				break
			}
			if shared, ok := config.SharedNames(&others[i], &own); ok {
				problems = append(problems, shared)
			}
		}
		others = append(others, own)
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// follow begins to learn what the backend offers. It returns at once, whatever the
// backend does: a gateway with a hundred of them starts as fast as one with one.
func (g *Gateway) follow(b *activeBackend, h mcp.Handler, last *backend.Offer) *activeBackend {
	b.taskIDs = g.taskIDs
	secrets := redact.New(header(b.srv.Headers), environ(b.srv.Env), b.srv.URL)
	b.Backend = backend.New(backend.Config{
		Name:      b.srv.Name,
		Sole:      g.onlyClient.waiterFor(b),
		Handler:   h,
		Info:      g.info,
		Idle:      b.limits.CallIdle,
		Max:       cmp.Or(b.srv.Timeout, b.limits.CallMax),
		MaxKey:    b.maxKey(),
		Handshake: b.limits.Handshake,
		MaxItems:  b.limits.ToolsPerBackend,
		MaxPages:  b.limits.Pages,
		Last:      last,
		Changed:   g.requestRebuild,
		Turn:      g.startSlotFor(b),
		Late:      g.noteLag,
		Logger:    slog.New(redact.Around(g.log.Handler(), func() *redact.Redactor { return secrets })),
	})
	ctx, cancel := context.WithCancel(g.ctx)
	b.cancel, b.done = cancel, make(chan struct{})
	// Ends with the unit's context; unit.stop waits for done, Gateway.stop for wg.
	g.wg.Go(func() {
		defer close(b.done)
		b.Run(ctx)
	})
	return b
}

// maxKey names what sets how long a call may take, for whoever reads that it took
// longer.
func (b *activeBackend) maxKey() string {
	if b.srv.Timeout != 0 {
		return "timeout"
	}
	return backend.DefaultMaxKey
}

// under returns the unit as another entry of the configuration has it, or nil
// where that takes another backend. How items are named, and which are offered,
// is no concern of the backend, which keeps its sessions and processes.
func (b *activeBackend) withConfig(srv *config.Server, limits *config.Limits) *activeBackend {
	// Everything but the names, compared as a whole: a setting that is added later counts
	// as a difference until somebody says that it is none.
	own := b.srv
	own.Prefix, own.Rename, own.Include, own.Exclude = srv.Prefix, srv.Rename, srv.Include, srv.Exclude
	own.EnvFile = srv.EnvFile // what it holds is in Env
	if b.client == nil || b.limits != *limits || !reflect.DeepEqual(&own, srv) {
		return nil
	}
	next := *b
	next.srv = *srv
	return &next
}

// isServer reports whether the entry leads to the same server as that of the unit: the
// same program with the same arguments, or the same address.
func (b *activeBackend) isSameServer(srv *config.Server) bool {
	own := &b.srv
	return own.Transport() == srv.Transport() && own.URL == srv.URL &&
		own.Command == srv.Command && own.Cwd == srv.Cwd && slices.Equal(own.Args, srv.Args)
}

// names reports whether the configuration alone says that a tool or prompt of
// that name can only be this backend's.
func (b *activeBackend) ownsName(name string) bool {
	for _, renamed := range b.srv.Rename {
		if renamed == name {
			return true
		}
	}
	prefix := b.srv.NamePrefix()
	return prefix != "" && strings.HasPrefix(name, prefix)
}

// mayBring reports whether the backend may come to offer a tool or prompt of that
// name. One without a prefix may bring any, those that begin with the prefix of
// another included: two that meet so are a conflict, and no matter of who was first.
func (b *activeBackend) mayOffer(name string) bool {
	return b.srv.NamePrefix() == "" || b.ownsName(name)
}

// stop no longer follows the backend, lets its calls end, and ends its sessions
// and processes; those that do not end by themselves end with ctx.
func (b *activeBackend) stop(ctx context.Context) error {
	b.cancel() // before the client ends: otherwise its end would be a failure to recover from
	var err error
	if b.client != nil {
		// In order, and at once where ctx has ended: what is running ends with an error then.
		err = b.client.Shutdown(ctx)
	}
	<-b.done
	return err
}

// dial returns the client of a configured server. It connects to nothing yet.
func dial(srv *config.Server, cfg client.Config) *client.Client {
	if srv.Transport() == config.TypeStdio {
		// Nothing starts here: the process begins with the first request for it.
		cmd := client.Command{Path: srv.Command, Args: srv.Args, Env: environ(srv.Env), Dir: srv.Cwd}
		return client.NewCommand(cmd, cfg)
	}
	if srv.Transport() == config.TypeSSE {
		return client.NewSSE(srv.URL, cfg)
	}
	return client.NewHTTP(srv.URL, cfg)
}

// clientConfig says how a backend is spoken to. The limits are those of the whole
// gateway, for each backend by itself, so that one cannot use up another's share.
func (g *Gateway) clientConfig(srv *config.Server, limits config.Limits) client.Config {
	return client.Config{
		Name:         srv.Name,
		Header:       header(srv.Headers),
		Transport:    g.opt.Transport,
		Version:      pinnedVersion(srv.Era),
		Share:        srv.Share,
		OneClient:    g.onlyClient != nil,
		Info:         g.info,
		MaxMessage:   int(limits.BackendMessage),
		MaxSessions:  limits.BackendSessions,
		MaxProcesses: limits.Processes,
		MaxRounds:    limits.Rounds,
		MaxLogLine:   int(limits.LogLine),
		Connect:      limits.Connect,
		Handshake:    limits.Handshake,
		Write:        limits.Write,
		Stop:         g.opt.Grace,
		ProcessLevel: g.opt.ProcessLevel,
		Logger:       g.log,
	}
}

// environ returns variables as a program gets them. The order is stable, because
// the same environment has to be the same to whoever compares two launches.
func environ(secrets map[string]config.Secret) []string {
	out := make([]string, 0, len(secrets))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		out = append(out, name+"="+secrets[name].Reveal())
	}
	return out
}

// header returns the headers of an entry. They are set and not added: two spellings
// of one name would otherwise be two values of it, which servers read
// differently.
func header(secrets map[string]config.Secret) http.Header {
	h := make(http.Header, len(secrets))
	for name := range maps.Keys(secrets) {
		h.Set(name, secrets[name].Reveal())
	}
	return h
}

// pin reads the setting "era": a revision, or the newest of an era. Empty is to
// find out.
func pinnedVersion(setting string) mcp.Version {
	switch v := mcp.Version(setting); {
	case setting == "legacy":
		return mcp.LatestLegacy
	case setting == "modern":
		return mcp.LatestModern
	case v.Era() != mcp.EraUnknown:
		return v
	default:
		return ""
	}
}
