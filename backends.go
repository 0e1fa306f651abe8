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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// activeBackend is one backend in use: its configuration, the client connected to it,
// and what it offers. A reload keeps those with unchanged configuration.
type activeBackend struct {
	*backend.Backend

	srv     config.Backend
	limits  config.Limits
	taskIDs *taskIDs
	tasks   *runningTasks
	client  *client.Client // nil for a backend in this process

	// hasNames is whether clients know some URIs of the backend by others than its own: see
	// package extension. It is set by the catalogs, and shared with the same backend after a
	// reload.
	hasNames *atomic.Bool
	bareURIs bool // clients know them by its own; in a profile with own names

	access  backendCredentials // nil if it has none
	users   *perUser           // nil if all users have the same lists
	metrics backendMetrics
	cancel  context.CancelFunc
	done    chan struct{} // closed when Run has returned
}

// previous is what the same server has offered until now.
type previous struct {
	offer   *backend.Offer // nil if it is not known
	reason  string         // why it is stale, if not because of a changed configuration
	stopped bool           // the server is not started before it is needed
}

// start starts the backend of a configured server.
func (g *Gateway) start(srv config.Backend, limits config.Limits, last previous) *activeBackend {
	b := &activeBackend{srv: srv, limits: limits}
	cfg := g.clientConfig(&srv, limits)
	// b.Backend is set before any request is sent.
	cfg.Announced = func(scope *mcp.Scope, ended bool) { g.noteListsChanged(b, scope, ended) }
	if b.access = g.credentialsFor(&srv); b.access != nil {
		cfg.Credentials = b.access
	}
	if a, ok := b.access.(userAccess); ok && a.isPerUser() {
		b.users = g.newPerUser()
	}
	b.client = dial(&srv, cfg)
	return g.follow(b, b.client, last)
}

// startInProcess starts the backend of a Handler in this process.
func (g *Gateway) startInProcess(p InProcess, limits config.Limits) *activeBackend {
	b := &activeBackend{srv: config.Backend{Name: p.Name, Prefix: p.Prefix}, limits: limits}
	return g.follow(b, p.Handler, previous{})
}

// checkNames checks that each backend has a unique name, by which reloads and catalogs
// identify it, and a prefix that keeps its item names apart from those of the others.
// The entries of the configuration have been compared with each other before.
func checkNames(cfg *config.Config, inProcess []InProcess) error {
	others := slices.DeleteFunc(slices.Clone(cfg.Servers), func(s config.Backend) bool { return s.Disabled })
	var problems config.Problems
	for _, p := range inProcess {
		own := config.Backend{Name: p.Name, Prefix: p.Prefix}
		for i := range others {
			if others[i].Name == p.Name {
				problems = append(problems, config.Problem{
					Path:    configpath.Server(p.Name),
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

// follow starts to track what the backend offers. It does not wait for the backend: a
// gateway with a hundred of them starts as fast as with one.
func (g *Gateway) follow(b *activeBackend, h mcp.Handler, last previous) *activeBackend {
	b.hasNames = new(atomic.Bool)
	b.taskIDs, b.tasks, b.metrics = g.taskIDs, new(runningTasks), g.backendMetrics(b.srv.Name)
	var offer *backend.Offer // the one before the change; only b.Run changes it
	changed := func() {
		now := b.Offer()
		g.former.compare(g.currentRules(b), offer, now)
		offer = now
		g.requestRebuild()
	}
	cfg := g.trackerConfig(b)
	cfg.Handler, cfg.Sole = h, g.onlyClient.waiterFor(b)
	cfg.Last, cfg.LastReason, cfg.Stopped = last.offer, last.reason, last.stopped
	cfg.Kept, cfg.Keep, cfg.Rest = g.keptOffer(&b.srv), g.keepOffer(&b.srv), g.restOf(b)
	cfg.Changed, cfg.Turn, cfg.Late = changed, g.startSlotFor(b), g.noteLag
	b.Backend = backend.New(cfg)
	offer = b.Offer()
	ctx, cancel := context.WithCancel(g.ctx)
	b.cancel, b.done = cancel, make(chan struct{})
	// Ends with the backend's context; activeBackend.stop waits for done, Gateway.stop
	// for wg.
	g.wg.Go(func() {
		defer close(b.done)
		b.Run(ctx)
	})
	return b
}

// trackerConfig returns what all have in common that track what a backend offers, be it to anybody or
// to one user.
func (g *Gateway) trackerConfig(b *activeBackend) backend.Config {
	// What is removed from logs and the reasons of failures.
	secrets := redact.New(header(b.srv.Headers), environ(b.srv.Env), b.srv.URL).With(revealed(b.srv.Secrets)...).With(oauthSecrets(&b.srv)...)
	return backend.Config{
		Name:      b.srv.Name,
		Info:      g.info,
		ByAccess:  b.users != nil,
		Idle:      b.limits.CallIdle,
		Max:       b.callMax(),
		MaxKey:    b.maxKey(),
		Handshake: b.limits.Handshake,
		MaxItems:  b.limits.ToolsPerBackend,
		MaxPages:  b.limits.Pages,
		Observe:   g.observeOwn(b.srv.Name, b.metrics),
		Secrets:   secrets,
		Logger:    slog.New(redact.Around(g.log.Handler(), func() *redact.Redactor { return secrets })),
	}
}

// callMax returns the limit of the duration of a call.
func (b *activeBackend) callMax() time.Duration { return cmp.Or(b.srv.Timeout, b.limits.CallMax) }

// maxKey returns the configuration key that limits the duration of a call, for the
// error of a call that exceeded it.
func (b *activeBackend) maxKey() string {
	if b.srv.Timeout != 0 {
		return "timeout"
	}
	return backend.DefaultMaxKey
}

// withConfig returns the backend with another configuration entry, or nil if that entry
// requires another backend. The names and the selection of items do not: the backend
// keeps its sessions and processes.
func (b *activeBackend) withConfig(srv *config.Backend, limits *config.Limits) *activeBackend {
	// Compare all but the names: a setting that is added later counts as a difference
	// until it is excluded here.
	own := b.srv
	own.Prefix, own.Rename, own.Include, own.Exclude = srv.Prefix, srv.Rename, srv.Include, srv.Exclude
	own.Apps = srv.Apps
	own.EnvFile = srv.EnvFile // its content is in Env
	own.Results = srv.Results // that of the configuration in use counts
	if b.client == nil || b.limits != *limits || !reflect.DeepEqual(&own, srv) {
		return nil
	}
	next := *b
	next.srv = *srv
	return &next
}

// isSameServer reports whether the entry leads to the same server as that of the
// backend: the same program with the same arguments, or the same address.
func (b *activeBackend) isSameServer(srv *config.Backend) bool {
	own := &b.srv
	return own.Transport() == srv.Transport() && own.URL == srv.URL &&
		own.Command == srv.Command && own.Cwd == srv.Cwd && slices.Equal(own.Args, srv.Args)
}

// ownsName reports whether, by the configuration alone, only this backend can have a
// tool or prompt of that name.
func (b *activeBackend) ownsName(name string) bool {
	for _, renamed := range b.srv.Rename {
		if renamed == name {
			return true
		}
	}
	prefix := b.srv.NamePrefix()
	return prefix != "" && strings.HasPrefix(name, prefix)
}

// mayOffer reports whether the backend may offer a tool or prompt of that name. One
// without a prefix may offer any name, including those with the prefix of another
// backend: two items with the same name are a conflict, and the first one does not win
// it.
func (b *activeBackend) mayOffer(name string) bool {
	return b.srv.NamePrefix() == "" || b.ownsName(name)
}

// stop stops tracking the backend, lets its calls end, and ends its sessions and
// processes. When ctx ends, it cancels those that have not ended.
func (b *activeBackend) stop(ctx context.Context) error {
	b.cancel() // before the client ends: its end would be treated as a failure
	if b.users != nil {
		b.users.stop()
		defer b.users.wait()
	}
	var err error
	if b.client != nil {
		// Graceful, or at once if ctx has ended: running calls end with an error then.
		err = b.client.Shutdown(ctx)
	}
	if b.access != nil {
		b.access.close()
	}
	<-b.done
	return err
}

// dial returns the client of a configured server. It does not connect yet.
func dial(srv *config.Backend, cfg client.Config) *client.Client {
	if srv.Transport() == config.TypeStdio {
		// Starts nothing: the process starts with the first request.
		cmd := client.Command{Path: srv.Command, Args: srv.Args, Env: environ(srv.Env), Dir: srv.Cwd, Memory: max(srv.Memory, 0), Direct: srv.Launch == "direct"}
		return client.NewCommand(cmd, cfg)
	}
	if srv.Transport() == config.TypeSSE {
		return client.NewSSE(srv.URL, cfg)
	}
	return client.NewHTTP(srv.URL, cfg)
}

// clientConfig returns the configuration of the client of a backend. The gateway's
// limits apply to each backend separately, so that one cannot use up the share of
// another.
func (g *Gateway) clientConfig(srv *config.Backend, limits config.Limits) client.Config {
	return client.Config{
		Name:         srv.Name,
		Header:       header(srv.Headers),
		Redact:       slices.Concat(revealed(srv.Secrets), oauthSecrets(srv)),
		Transport:    g.opt.Transport,
		Version:      pinnedVersion(srv.Era),
		Share:        srv.Share,
		OneClient:    g.onlyClient != nil,
		RestSessions: srv.Idle > 0,
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
		LoginPath:    g.opt.LoginPath,
		ProcessLevel: g.opt.ProcessLevel,
		Logger:       g.log,
		SessionEnded: g.metrics.ClientSessions(srv.Name),
	}
}

// environ returns variables as a program receives them. The order is stable, because
// launches are compared by their environment.
func environ(secrets map[string]config.Secret) []string {
	out := make([]string, 0, len(secrets))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		out = append(out, name+"="+secrets[name].Reveal())
	}
	return out
}

// revealed returns the texts of secrets.
func revealed(secrets []config.Secret) []string {
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = s.Reveal()
	}
	return texts
}

// header returns the headers of an entry. They are set and not added: two spellings of
// one name would otherwise be two values of it, which servers read differently.
func header(secrets map[string]config.Secret) http.Header {
	h := make(http.Header, len(secrets))
	for name, secret := range secrets {
		h.Set(name, secret.Reveal())
	}
	return h
}

// pinnedVersion reads the setting "era": a revision, or the newest of an era. Empty
// means detect.
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

// startSlots limits how many processes start at a time: more of them than the machine
// has processors take longer each, until all exceed their time limit.
type startSlots chan struct{}

const (
	minStartSlots = 4

	// slotTime is how long a start keeps its slot. A start that hangs delays the others
	// by no more.
	slotTime = 2 * time.Second
)

// newStartSlots returns n slots, or the default number of Options.Starts.
func newStartSlots(n int) startSlots {
	if n <= 0 {
		n = max(minStartSlots, 2*runtime.GOMAXPROCS(0))
	}
	return make(startSlots, n)
}

// acquire waits for a slot, or until ctx ends. done releases the slot.
func (t startSlots) acquire(ctx context.Context) (done func()) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	var once sync.Once
	free := func() { once.Do(func() { <-t }) }
	late := time.AfterFunc(slotTime, free)
	return func() {
		late.Stop()
		free()
	}
}

// startSlotFor returns the function that acquires a start slot for a backend, or nil if
// no process is started.
func (g *Gateway) startSlotFor(b *activeBackend) func(context.Context) func() {
	if b.client == nil || b.srv.Command == "" {
		return nil
	}
	return g.startSlots.acquire
}
