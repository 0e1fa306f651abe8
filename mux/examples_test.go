// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// use prints the answer of a Handler.
func use(h mcp.Handler, method, params string, caller mcp.Caller) {
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.LogLevel = mcp.LogInfo
	req.Client = &mcp.Peer{Version: mcp.LatestModern, Capabilities: []byte(`{"elicitation":{}}`)}
	res, err := h.Serve(context.Background(), req, caller)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", res.Bytes())
}

// A Mux is a Handler, so a tool can be tried without a server and a client.
func ExampleMux_Serve() {
	m := mux.New(mux.Tool{Name: "hello", Call: mux.Always(mux.Say("Hello."))})
	use(m, "tools/call", `{"name":"hello"}`, nil)
	use(m, "tools/call", `{"name":"goodbye"}`, nil)
	// Output:
	// {"content":[{"type":"text","text":"Hello."}]}
	// unknown tool: "goodbye" (code -32602)
}

// Middleware is a Handler around the Mux.
func ExampleMux_Serve_middleware() {
	m := mux.New(mux.Tool{Name: "hello", Call: mux.Always(mux.Say("Hello."))})
	counted := 0
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		counted++
		return m.Serve(ctx, req, caller)
	})
	use(h, "tools/call", `{"name":"hello"}`, nil)
	fmt.Println(counted)
	// Output:
	// {"content":[{"type":"text","text":"Hello."}]}
	// 1
}

// Items are added and removed while the Mux serves; one of the same name is replaced.
func ExampleMux_Add() {
	m := &mux.Mux{HasTools: true}
	use(m, "tools/list", `{}`, nil)
	err := m.Add(mux.Tool{Name: "hello", Call: mux.Always(mux.Say("Hello."))})
	if err != nil {
		fmt.Println(err)
	}
	use(m, "tools/list", `{}`, nil)
	err = m.Remove(mux.Tool{Name: "hello"})
	if err != nil {
		fmt.Println(err)
	}
	use(m, "tools/list", `{}`, nil)
	// Output:
	// {"tools":[]}
	// {"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}
	// {"tools":[]}
}

// A Template is read for each URI that it matches, and completes variables.
func ExampleTemplate() {
	capitals := map[string]string{"france": "Paris", "finland": "Helsinki", "peru": "Lima"}
	m := mux.New(mux.Template{
		URI: "geo://{country}/capital", Name: "capital", MIMEType: "text/plain",
		Read: func(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
			city, ok := capitals[call.Var("country")]
			if !ok {
				return nil, mux.NotFound(call.URI())
			}
			return []mux.Contents{mux.TextContents(call.URI(), "text/plain", city)}, nil
		},
		Complete: map[string]mux.Completer{"country": func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
			var fit []string
			for _, country := range []string{"finland", "france", "peru"} {
				if strings.HasPrefix(country, typed) {
					fit = append(fit, country)
				}
			}
			return fit, nil
		}},
	})
	use(m, "resources/read", `{"uri":"geo://peru/capital"}`, nil)
	use(m, "resources/read", `{"uri":"geo://atlantis/capital"}`, nil)
	use(m, "completion/complete", `{"ref":{"type":"ref/resource","uri":"geo://{country}/capital"},"argument":{"name":"country","value":"f"}}`, nil)
	// Output:
	// {"contents":[{"uri":"geo://peru/capital","mimeType":"text/plain","text":"Lima"}]}
	// resource not found (code -32602)
	// {"completion":{"hasMore":false,"total":2,"values":["finland","france"]}}
}

// A Prompt has arguments that a user fills in.
func ExamplePrompt() {
	type review struct {
		Code string `json:"code"`
	}
	m := mux.New(mux.Prompt{
		Name: "review", Arguments: []mux.Argument{{Name: "code", Required: true}},
		Get: mux.Bound(func(_ context.Context, _ *mux.Call, in review) ([]mux.Message, error) {
			return []mux.Message{mux.User(mux.Text("Please review: " + in.Code))}, nil
		}),
	})
	use(m, "prompts/get", `{"name":"review","arguments":{"code":"x++"}}`, nil)
	use(m, "prompts/get", `{"name":"review"}`, nil)
	// Output:
	// {"messages":[{"role":"user","content":{"type":"text","text":"Please review: x++"}}]}
	// prompt review: the argument "code" is missing (code -32602)
}

// A result has a structure for programs, and a text for clients that read nothing else.
func ExampleStructured() {
	type weather struct {
		Celsius float64 `json:"celsius"`
	}
	m := mux.New(mux.Tool{
		Name:         "weather",
		OutputSchema: `{"type":"object","properties":{"celsius":{"type":"number"}},"required":["celsius"]}`,
		Call:         mux.Always(mux.Structured(weather{Celsius: 21.5})),
	})
	use(m, "tools/call", `{"name":"weather"}`, nil)
	// Output:
	// {"content":[{"type":"text","text":"{\"celsius\":21.5}"}],"structuredContent":{"celsius":21.5}}
}

// printer is a client that prints the notifications it receives.
type printer struct{ yes }

func (printer) Notify(_ context.Context, n *mcp.Notification) error {
	fmt.Printf("%s %s\n", n.Method, n.Params.Bytes())
	return nil
}

// Progress and log messages go to the client that asked for them.
func ExampleCall_Progress() {
	m := mux.New(mux.Tool{Name: "work", Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		for step := range 2 {
			if err := call.Progress(ctx, float64(step+1), 2, ""); err != nil {
				return nil, err // the client is gone
			}
		}
		return mux.Say("Done."), call.Log(ctx, mcp.LogInfo, "work", "all done")
	}})
	use(m, "tools/call", `{"name":"work","_meta":{"progressToken":"p"}}`, printer{})
	// Output:
	// notifications/progress {"progressToken":"p","progress":1,"total":2}
	// notifications/progress {"progressToken":"p","progress":2,"total":2}
	// notifications/message {"level":"info","logger":"work","data":"all done"}
	// {"content":[{"type":"text","text":"Done."}]}
}

// A function that uses Input is called again from its beginning with the answers: code
// before Input only looks and changes nothing.
func ExampleCall_Input() {
	m := mux.New(mux.Tool{Name: "rename", Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		answers, err := call.Input(ctx,
			mux.Elicit("name", "The new name?", `{"type":"object","properties":{"name":{"type":"string"}}}`))
		if err != nil {
			return nil, err
		}
		var in struct {
			Name string `json:"name"`
		}
		if !answers["name"].Content(&in) || in.Name == "" {
			return mux.Say("It keeps its name."), nil
		}
		return mux.Say("It is %s now.", in.Name), nil
	}})
	use(m, "tools/call", `{"name":"rename"}`, yes{})
	// Output:
	// {"content":[{"type":"text","text":"It keeps its name."}]}
}

// Long work continues in the background for clients that support tasks; this client
// does not, and waits.
func ExampleCall_Background() {
	m := mux.New(mux.Tool{Name: "dig", Task: mux.TaskOptional, Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		return call.Background(ctx, func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
			select {
			case <-time.After(time.Millisecond):
				return mux.Say("There is a hole."), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}})
	defer func() { _ = m.Close() }()
	use(m, "tools/call", `{"name":"dig"}`, nil)
	// Output:
	// {"content":[{"type":"text","text":"There is a hole."}]}
}
