// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

const (
	inspectorName = "inspector"
	// inspectorRuns is how many processes of the inspector run at once. Each is short, and
	// mostly waits for its server.
	inspectorRuns = 6
	// inspectorLimit is longer than featureLimit, because each request starts a process, and
	// often a server.
	inspectorLimit = 2 * featureLimit
)

// refusalLimit is the time limit for requests that the command line cannot make.
const refusalLimit = 4 * time.Second

// inspector is the command line of the MCP inspector: one process connects, makes one
// request, and prints its result.
type inspector struct {
	node   foreign.Node
	job    job
	config string
	slots  chan struct{}
	once   *onces
}

// onces caches the results of requests that are the same for several servers, because each
// process takes time: those that the command line refuses, and the lists of a gateway that
// has all servers.
type onces struct {
	mu    sync.Mutex
	tries map[string]func() (reply, error)
}

func (r *onces) first(key string, try func() (reply, error)) (reply, error) {
	r.mu.Lock()
	if r.tries[key] == nil {
		r.tries[key] = sync.OnceValues(try)
	}
	try = r.tries[key]
	r.mu.Unlock()
	return try()
}

// inspectorRunner runs the jobs with the command line of the inspector.
func inspectorRunner(node foreign.Node) func(context.Context, []job) ([]outcome, error) {
	return func(ctx context.Context, jobs []job) ([]outcome, error) {
		dir, err := os.MkdirTemp("", "inspector")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		slots := make(chan struct{}, inspectorRuns)
		once := &onces{tries: make(map[string]func() (reply, error))}
		results := make([][]outcome, len(jobs))
		var wg sync.WaitGroup
		for i, j := range jobs {
			in := &inspector{node: node, job: j, slots: slots, once: once, config: filepath.Join(dir, fmt.Sprintf("%d.json", i))}
			if err := in.writeConfig(); err != nil {
				return nil, err
			}
			// Waited for below; each feature of the job has a limit.
			wg.Go(func() { results[i] = in.run(ctx) })
		}
		wg.Wait()
		var all []outcome
		for _, r := range results {
			all = append(all, r...)
		}
		return all, nil
	}
}

// writeConfig writes the one server of the job, with the client's roots: the command line
// has no option for them.
func (in *inspector) writeConfig() error {
	entry := map[string]any{"roots": []map[string]string{{"uri": in.job.Answers.Root, "name": "root"}}}
	if t := in.job.Target; t.URL != "" {
		entry["type"], entry["url"] = "streamable-http", t.URL
		if t.Token != "" {
			entry["headers"] = map[string]string{"Authorization": "Bearer " + t.Token}
		}
	} else {
		entry["type"], entry["command"], entry["args"] = "stdio", t.Command, t.Args
	}
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"target": entry}})
	if err != nil {
		return err
	}
	return os.WriteFile(in.config, data, 0o600)
}

func (in *inspector) run(ctx context.Context) []outcome {
	all := []outcome{in.limited(ctx, "", featureConnect, in.connect)}
	if !all[0].OK {
		return all
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range in.job.Servers {
		for _, f := range features()[1:] {
			if !p.offers(f) {
				continue
			}
			// Waited for below; the feature has a limit.
			wg.Go(func() {
				o := in.limited(ctx, p.Name, f, func(ctx context.Context) error { return in.try(ctx, f, p) })
				mu.Lock()
				defer mu.Unlock()
				all = append(all, o)
			})
		}
	}
	wg.Wait()
	return all
}

// limited runs a feature when there is a slot; waiting for it does not count.
func (in *inspector) limited(ctx context.Context, server string, f feature, run func(context.Context) error) outcome {
	in.slots <- struct{}{}
	defer func() { <-in.slots }()
	return limited(ctx, inspectorLimit, in.job.ID, server, f, run)
}

// reply is the union of the checked results.
type reply struct {
	ProtocolVersion   string
	Capabilities      map[string]any
	Instructions      string
	StructuredContent map[string]any
	Tools, Prompts    []struct{ Name string }
	Resources         []struct{ URI string }
	ResourceTemplates []struct{ URITemplate string }
	Content, Contents []struct{ Type, Text string }
	Messages          []struct{ Content struct{ Text string } }
}

// request runs the command line once.
func (in *inspector) request(ctx context.Context, method string, args ...string) (reply, error) {
	args = append([]string{
		in.node.Module("@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli",
		"--config", in.config, "--server", "target", "--protocol-era", in.job.Era,
		"--format", "json", "--quiet", "--stored-auth-only", "--method", method,
	}, args...)
	// It stores nothing, and does not touch the user's stored data.
	env := append([]string{"HOME=" + filepath.Dir(in.config), "MCP_INSPECTOR_SECRET_STORE=memory"}, in.node.Env...)
	stdout, stderr, err := foreign.Output(ctx, nil, env, in.node.Bin, args...)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %s%s", err, stderr, stdout)
	}
	var answer struct{ Result reply }
	if err := json.Unmarshal(stdout, &answer); err != nil {
		return reply{}, fmt.Errorf("output %q: %w", stdout, err)
	}
	return answer.Result, nil
}

func (in *inspector) connect(ctx context.Context) error {
	res, err := in.once.first(fmt.Sprint(in.job.ID, " initialize"), func() (reply, error) { return in.request(ctx, "initialize") })
	if err != nil {
		return err
	}
	if res.ProtocolVersion != in.job.Version {
		return fmt.Errorf("negotiated %s, want %s", res.ProtocolVersion, in.job.Version)
	}
	return nil
}

func (in *inspector) try(ctx context.Context, f feature, p probes) error {
	switch f {
	case featureTools:
		return in.wantListed(ctx, "tools/list", p.Tools)
	case featureResources:
		return in.wantListed(ctx, "resources/list", p.Resources)
	case featureTemplates:
		return in.wantListed(ctx, "resources/templates/list", p.Templates)
	case featurePrompts:
		return in.wantListed(ctx, "prompts/list", p.Prompts)
	case featureCall:
		return in.wantCall(ctx, p.Call)
	case featureRead:
		return in.tryRead(ctx, p.Read)
	case featureGet:
		return in.tryGet(ctx, p.Get)
	case featureElicit:
		return in.tryAsk(ctx, f, p.Elicit)
	case featureSample:
		return in.tryAsk(ctx, f, p.Sample)
	case featureSeveral:
		return in.tryAsk(ctx, f, p.Several)
	case featureURL:
		return in.tryAsk(ctx, f, p.URL)
	case featureUse:
		return in.tryAsk(ctx, f, p.Use)
	case featureState:
		return in.tryAsk(ctx, f, p.State)
	case featureRoots:
		return in.wantCall(ctx, p.Roots)
	case featureHeader:
		return in.wantCall(ctx, p.Header)
	case featureKinds:
		return in.tryKinds(ctx, p.Kinds)
	case featureStructure:
		return in.tryStructure(ctx, p.Structure)
	case featureErrors:
		return in.tryErrors(ctx, p.Errors)
	case featureCaps:
		return in.tryCaps(ctx, p.Caps)
	case featureInstruct:
		return in.tryInstruct(ctx, p.Instruct)
	default:
		return in.tryUnsupported(ctx, f)
	}
}

// tryUnsupported tries the method of the feature. The command line refuses all of them;
// when it no longer does, the table must be updated.
func (in *inspector) tryUnsupported(ctx context.Context, f feature) error {
	method, ok := map[feature]string{
		featureProgress: "notifications/progress",
		featureCancel:   "notifications/cancelled",
		featureLog:      "logging/tail",
		featureComplete: "completion/complete",
		featureTasks:    "tasks/list",
		featureChanges:  "subscriptions/listen",
		featureUpdates:  "resources/subscribe",
	}[f]
	if !ok {
		return fmt.Errorf("no way to try %s", f)
	}
	_, err := in.once.first(in.job.Era+" "+method, func() (reply, error) { return in.request(ctx, method) })
	return err
}

// tryAsk calls a tool that asks the client; one such tool is enough. In the modern era
// the command line neither responds nor ends.
func (in *inspector) tryAsk(ctx context.Context, f feature, p *callProbe) error {
	_, err := in.once.first(in.job.Era+" "+string(f), func() (reply, error) {
		ctx, cancel := context.WithTimeout(ctx, refusalLimit)
		defer cancel()
		return reply{}, in.wantCall(ctx, p)
	})
	return err
}

func (in *inspector) wantListed(ctx context.Context, method string, want []string) error {
	res, err := in.once.first(fmt.Sprint(in.job.ID, " ", method), func() (reply, error) { return in.request(ctx, method) })
	if err != nil {
		return err
	}
	var got []string
	for _, item := range append(res.Tools, res.Prompts...) {
		got = append(got, item.Name)
	}
	for _, item := range res.Resources {
		got = append(got, item.URI)
	}
	for _, item := range res.ResourceTemplates {
		got = append(got, item.URITemplate)
	}
	return includesAll(got, want)
}

// wantCall retries until the limit if the server needs time: each process is a session of
// its own, in which the server may not have asked for the roots yet.
func (in *inspector) wantCall(ctx context.Context, p *callProbe) error {
	for {
		res, err := in.call(ctx, p)
		if err != nil {
			return err
		}
		err = errors.New("no content")
		for _, c := range res.Content {
			if err = includes(c.Text, p.Want); err == nil {
				return nil
			}
		}
		if !p.Eventually || ctx.Err() != nil {
			return err
		}
	}
}

func (in *inspector) call(ctx context.Context, p *callProbe) (reply, error) {
	args, err := json.Marshal(p.Arguments)
	if err != nil {
		return reply{}, err
	}
	if p.Arguments == nil {
		args = []byte("{}")
	}
	return in.request(ctx, "tools/call", "--tool-name", p.Name, "--tool-args-json", string(args))
}

func (in *inspector) tryRead(ctx context.Context, all []readProbe) error {
	for _, p := range all {
		res, err := in.request(ctx, "resources/read", "--uri", p.URI)
		if err != nil {
			return err
		}
		if len(res.Contents) == 0 {
			return fmt.Errorf("%s is empty", p.URI)
		}
		if err := includes(res.Contents[0].Text, p.Text); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspector) tryKinds(ctx context.Context, p *callProbe) error {
	res, err := in.call(ctx, p)
	if err != nil {
		return err
	}
	var kinds []string
	for _, c := range res.Content {
		kinds = append(kinds, c.Type)
	}
	return includes(strings.Join(kinds, " "), p.Want)
}

func (in *inspector) tryStructure(ctx context.Context, p *callProbe) error {
	res, err := in.call(ctx, p)
	if err != nil {
		return err
	}
	got, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	return includes(string(got), p.Want)
}

// tryErrors searches the code in the output of the failing command line.
func (in *inspector) tryErrors(ctx context.Context, p *errorProbe) error {
	_, err := in.request(ctx, "resources/read", "--uri", p.URI)
	if err == nil {
		return fmt.Errorf("read %s, which is not there", p.URI)
	}
	for _, code := range p.Codes {
		if strings.Contains(err.Error(), strconv.Itoa(code)) {
			return nil
		}
	}
	return fmt.Errorf("none of %v is in %w", p.Codes, err)
}

func (in *inspector) tryCaps(ctx context.Context, want []string) error {
	res, err := in.once.first(fmt.Sprint(in.job.ID, " initialize"), func() (reply, error) { return in.request(ctx, "initialize") })
	if err != nil {
		return err
	}
	return includesAll(slices.Collect(maps.Keys(res.Capabilities)), want)
}

func (in *inspector) tryInstruct(ctx context.Context, want string) error {
	res, err := in.once.first(fmt.Sprint(in.job.ID, " initialize"), func() (reply, error) { return in.request(ctx, "initialize") })
	if err != nil {
		return err
	}
	return includes(res.Instructions, want)
}

func (in *inspector) tryGet(ctx context.Context, p *callProbe) error {
	args := []string{"--prompt-name", p.Name}
	for k, v := range p.Arguments {
		args = append(args, "--prompt-args", fmt.Sprintf("%s=%v", k, v))
	}
	res, err := in.request(ctx, "prompts/get", args...)
	if err != nil {
		return err
	}
	if len(res.Messages) == 0 {
		return errors.New("no messages")
	}
	return includes(res.Messages[0].Content.Text, p.Want)
}
