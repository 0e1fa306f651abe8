// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mux"
)

// browser is the command mcpbrowser: it appends its arguments to the file browser.txt, and opens
// the last one. With the argument -fail it ends with an error, with -idle it opens nothing, and with
// -continue it sends the form of the page, as a user does that continues.
func browser() {
	f, err := os.OpenFile("browser.txt", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		os.Exit(3)
	}
	fmt.Fprintf(f, "%d arguments\n", len(os.Args)-1)
	for _, arg := range os.Args[1:] {
		fmt.Fprintf(f, "%q\n", arg)
	}
	address := os.Args[len(os.Args)-1]
	switch {
	case len(os.Args) > 2 && os.Args[1] == "-fail":
		os.Exit(4)
	case len(os.Args) > 2 && os.Args[1] == "-idle":
		return
	case len(os.Args) > 2 && os.Args[1] == "-continue":
		if err := proceed(address); err != nil {
			fmt.Fprintf(f, "%v\n", err)
			os.Exit(6)
		}
		return
	case len(os.Args) > 2 && strings.HasPrefix(os.Args[1], "-with="):
		address = strings.TrimPrefix(os.Args[1], "-with=")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		os.Exit(5)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintf(f, "%v\n", err)
		os.Exit(6)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // its user reads it
}

// proceed opens a page of a gateway, and sends its form. Its last page has to have the text
// "You are signed in".
func proceed(address string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	person := &http.Client{Jar: jar}
	request := func(method, to string) (string, *url.URL, error) {
		req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
		if err != nil {
			return "", nil, err
		}
		req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
		resp, err := person.Do(req)
		if err != nil {
			return "", nil, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), resp.Request.URL, err
	}
	page, at, err := request(http.MethodGet, address)
	switch {
	case err != nil:
		return err
	case strings.Contains(page, "password") || at.RawQuery != "":
		return fmt.Errorf("the page asks who the user is, or has a ticket in its address: %s: %s", at, page)
	}
	page, at, err = request(http.MethodPost, at.String())
	if err == nil && !strings.Contains(page, "You are signed in") {
		err = fmt.Errorf("%s: %s", at, page)
	}
	return err
}

// signInKey is the key of a script's servers that require a sign-in.
type signInKey struct{}

// scriptSignIn implements "signin VARIABLE": it starts a server that requires a sign-in, and sets
// the variable to its address. With "signin -requests VARIABLE", stdout is what its
// authorization server was asked for, without ports.
func scriptSignIn(ts *testscript.TestScript, neg bool, args []string) {
	servers, _ := ts.Value(signInKey{}).(map[string]*commandtest.SignInServer)
	switch {
	case !neg && len(args) == 2 && args[0] == "-requests" && servers[args[1]] != nil:
		text := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(strings.Join(servers[args[1]].Requests(), "\n"), "127.0.0.1:PORT")
		_, err := io.WriteString(ts.Stdout(), text+"\n")
		ts.Check(err)
	case !neg && len(args) == 1:
		s := commandtest.NewSignInServer(mux.New(mux.Tool{
			Name: "whoami", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("signed in"), nil },
		}))
		ts.Defer(s.End)
		servers[args[0]] = s
		ts.Setenv(args[0], s.URL)
	default:
		ts.Fatalf("usage: signin [-requests] VARIABLE")
	}
}
