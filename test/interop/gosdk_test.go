// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

const (
	// featureLimit is when a feature counts as failed, on a machine with much other load.
	// briefLimit is for features that are known not to work, and are tested to detect when
	// they do. pollInterval is the interval of retries with a server that does not report
	// when it is ready.
	featureLimit = 2 * time.Minute
	briefLimit   = 5 * time.Second
	pollInterval = 100 * time.Millisecond
)

// runGoSDK runs the jobs with the client of the Go SDK.
func runGoSDK(ctx context.Context, jobs []job) ([]outcome, error) {
	var (
		mu    sync.Mutex
		all   []outcome
		wg    sync.WaitGroup
		slots = make(chan struct{}, sessions)
	)
	for _, j := range jobs {
		// Waited for below; each feature of the job has a limit.
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found := runGoJob(ctx, j)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
		})
	}
	wg.Wait()
	return all, nil
}

func runGoJob(ctx context.Context, j job) []outcome {
	s := &goSession{job: j, inbox: newInbox()}
	all := []outcome{limited(ctx, featureLimit, j.ID, "", featureConnect, s.connect)}
	if s.cs == nil {
		return all
	}
	end := func() outcome {
		return limited(ctx, featureLimit, j.ID, "", outcomeClose, func(context.Context) error { return s.cs.Close() })
	}
	if !all[0].OK {
		return append(all, end())
	}
	for _, p := range j.Servers {
		for _, f := range features()[1:] {
			if p.offers(f) {
				all = append(all, limited(ctx, p.limit(f), j.ID, p.Name, f, func(ctx context.Context) error { return s.try(ctx, f, p) }))
			}
		}
	}
	return append(all, end())
}

// limited runs one feature within its limit.
func limited(ctx context.Context, limit time.Duration, id int, server string, f feature, run func(context.Context) error) outcome {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	err := run(ctx)
	o := outcome{Job: id, Server: server, Feature: f, OK: err == nil, MS: int(time.Since(start).Milliseconds())}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// goSession is a session of the Go SDK's client.
type goSession struct {
	job   job
	inbox *inbox
	cs    *mcp.ClientSession
	// meta is sent with each call: in the modern era, the log level.
	meta mcp.Meta
}

func (s *goSession) connect(ctx context.Context) error {
	standalone := newStandalone()
	if err := s.dial(ctx, standalone); err != nil {
		return err
	}
	if got := s.cs.InitializeResult().ProtocolVersion; got != s.job.Version {
		return fmt.Errorf("negotiated %s, want %s", got, s.job.Version)
	}
	if s.job.Target.URL == "" || s.job.Era == eraModern {
		return nil
	}
	select {
	case <-standalone.opened:
		return nil
	case <-ctx.Done():
		return errors.New("no answer to the GET of the session")
	}
}

// dial connects, in the revision that the server negotiates.
func (s *goSession) dial(ctx context.Context, standalone *standalone) error {
	c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1.0.0"}, s.options())
	c.AddReceivingMiddleware(s.inbox.noteAgreed)
	c.AddRoots(&mcp.Root{URI: s.job.Answers.Root, Name: "root"})
	cs, err := c.Connect(ctx, s.transport(standalone), &mcp.ClientSessionOptions{ProtocolVersion: s.job.Version})
	if err != nil {
		return err
	}
	s.cs = cs
	return nil
}

func (s *goSession) transport(standalone *standalone) mcp.Transport {
	if s.job.Target.URL != "" {
		tr := &mcp.StreamableClientTransport{
			Endpoint:   s.job.Target.URL,
			HTTPClient: &http.Client{Transport: standalone},
			MaxRetries: -1,
		}
		if token := s.job.Target.Token; token != "" {
			tr.OAuthHandler = signedIn(token)
		}
		return tr
	}
	// The SDK ends the command when the session is closed.
	cmd := exec.Command(s.job.Target.Command, s.job.Target.Args...)
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: foreign.StopGrace / 10}
}

func (s *goSession) options() *mcp.ClientOptions {
	a, in := s.job.Answers, s.inbox
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:  &mcp.RootCapabilities{ListChanged: true},
			Sampling: &mcp.SamplingCapabilities{Tools: &mcp.SamplingToolsCapabilities{}},
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
			},
		},
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if req.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": a.Name}}, nil
		},
		CreateMessageWithToolsHandler: func(_ context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			said := &mcp.CreateMessageWithToolsResult{Model: "none", Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: a.Sample}}}
			if tools := req.Params.Tools; len(tools) > 0 {
				said.StopReason = "toolUse"
				said.Content = []mcp.Content{&mcp.ToolUseContent{ID: "use-1", Name: tools[0].Name, Input: map[string]any{}}}
			}
			return said, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			in.logs.put(fmt.Sprint(r.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			in.progress.put(r.Params)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { in.changed["tools"].put(struct{}{}) },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			in.updated.put(r.Params.URI)
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			in.changed["resources"].put(struct{}{})
		},
	}
}

// try runs the probe of one feature.
func (s *goSession) try(ctx context.Context, f feature, p probes) error {
	switch f {
	case featureTools:
		return s.wantListed(ctx, "tools", p.Tools)
	case featureResources:
		return s.wantListed(ctx, "resources", p.Resources)
	case featureTemplates:
		return s.wantListed(ctx, "templates", p.Templates)
	case featurePrompts:
		return s.wantListed(ctx, "prompts", p.Prompts)
	case featureCall:
		return s.wantCall(ctx, p.Call)
	case featureProgress:
		return s.tryProgress(ctx, p.Progress)
	case featureCancel:
		return s.tryCancel(ctx, p.Cancel)
	case featureLog:
		return s.tryLog(ctx, p.Log)
	case featureComplete:
		return s.tryComplete(ctx, p.Complete)
	case featureRead:
		return s.tryRead(ctx, p.Read)
	case featureGet:
		return s.tryGet(ctx, p.Get)
	case featureElicit:
		return s.wantCall(ctx, p.Elicit)
	case featureSample:
		return s.wantCall(ctx, p.Sample)
	case featureRoots:
		return s.wantCall(ctx, p.Roots)
	case featureSeveral:
		return s.wantCall(ctx, p.Several)
	case featureURL:
		return s.wantCall(ctx, p.URL)
	case featureUse:
		return s.wantCall(ctx, p.Use)
	case featureState:
		return s.wantCall(ctx, p.State)
	case featureHeader:
		return s.tryHeader(ctx, p.Header)
	case featureKinds:
		return s.tryKinds(ctx, p.Kinds)
	case featureStructure:
		return s.tryStructure(ctx, p.Structure)
	case featureErrors:
		return s.tryErrors(ctx, p.Errors)
	case featureCaps:
		return s.tryCaps(p.Caps)
	case featureInstruct:
		return includes(s.cs.InitializeResult().Instructions, p.Instruct)
	case featureTasks:
		return errors.New("the SDK has no tasks")
	case featureUpdates:
		return s.tryUpdates(ctx, p.Updates)
	case featureChanges:
		return s.tryChanges(ctx, p.Changes)
	default:
		return fmt.Errorf("no way to try %s", f)
	}
}

// listed returns the whole list of a kind, all pages of it.
func (s *goSession) listed(ctx context.Context, kind string) (found []string, err error) {
	switch kind {
	case "tools":
		for t, err := range s.cs.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			found = append(found, t.Name)
		}
	case "resources":
		for r, err := range s.cs.Resources(ctx, nil) {
			if err != nil {
				return nil, err
			}
			found = append(found, r.URI)
		}
	case "templates":
		for r, err := range s.cs.ResourceTemplates(ctx, nil) {
			if err != nil {
				return nil, err
			}
			found = append(found, r.URITemplate)
		}
	case "prompts":
		for p, err := range s.cs.Prompts(ctx, nil) {
			if err != nil {
				return nil, err
			}
			found = append(found, p.Name)
		}
	}
	return found, nil
}

func (s *goSession) wantListed(ctx context.Context, kind string, want []string) error {
	got, err := s.listed(ctx, kind)
	if err != nil {
		return err
	}
	return includesAll(got, want)
}

func includesAll(got, want []string) error {
	for _, w := range want {
		if !slices.Contains(got, w) {
			return fmt.Errorf("%q is not in %q", w, got)
		}
	}
	return nil
}

func includes(got, want string) error {
	if !strings.Contains(got, want) {
		return fmt.Errorf("got %q, want %q in it", got, want)
	}
	return nil
}

// call returns the text of a tool's result.
func (s *goSession) call(ctx context.Context, p callProbe, token any) (string, error) {
	res, err := s.callTool(ctx, p, token)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text + "\n")
		}
	}
	if res.IsError {
		return "", fmt.Errorf("tool error: %s", text.String())
	}
	return text.String(), nil
}

func (s *goSession) callTool(ctx context.Context, p callProbe, token any) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: p.Name, Meta: mcp.Meta{}}
	if p.Arguments != nil { // a nil map would be sent as null
		params.Arguments = p.Arguments
	}
	maps.Copy(params.Meta, s.meta)
	if token != nil {
		params.SetProgressToken(token)
	}
	return s.cs.CallTool(ctx, params)
}

func (s *goSession) wantCall(ctx context.Context, p *callProbe) error {
	for {
		got, err := s.call(ctx, *p, nil)
		if err != nil {
			return err
		}
		err = includes(got, p.Want)
		if err == nil || !p.Eventually {
			return err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return err
		}
	}
}
