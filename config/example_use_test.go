// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
)

// A Config has the configured values, and Effective those in effect.
func ExampleConfig_Effective() {
	c := &config.Config{Limits: config.Limits{CallMax: time.Minute, Sessions: -1}}
	e := c.Effective()
	fmt.Println(c.Listen == "", e.Listen)
	fmt.Println(c.Limits.CallIdle, e.Limits.CallIdle)
	fmt.Println(c.Limits.CallMax, e.Limits.CallMax)
	fmt.Println("no limit:", e.Limits.Sessions < 0)
	// Output:
	// true 127.0.0.1:7777
	// 0s 1m0s
	// 1m0s 1m0s
	// no limit: true
}

// A flag can change a validated Config, which then has to be validated again.
func ExampleConfig_Validate() {
	c, err := config.Parse("signalbox.yaml", []byte("mcpServers: {}\n"), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Listen = "0.0.0.0:7777"
	if problems, ok := errors.AsType[config.Problems](c.Validate()); ok {
		fmt.Println(problems[0].Path)
		fmt.Println(problems[0].Message)
	}
	// Output:
	// listen
	// "listen" reaches beyond this machine, so that anyone on the network could use every server
}

func ExampleBackend_Offers() {
	s := &config.Backend{Include: []string{"read_*", "stat"}, Exclude: []string{"*_secret"}}
	for _, name := range []string{"read_file", "read_secret", "stat", "write_file"} {
		fmt.Println(name, s.Offers(name))
	}
	// Output:
	// read_file true
	// read_secret false
	// stat true
	// write_file false
}

func ExampleBackend_NamePrefix() {
	none := ""
	fmt.Printf("%q\n", (&config.Backend{Name: "files"}).NamePrefix())
	fmt.Printf("%q\n", (&config.Backend{Name: "files", Prefix: &none}).NamePrefix())
	// Output:
	// "files__"
	// ""
}

// Only Reveal shows a Secret.
func ExampleSecret() {
	s := config.NewSecret("hunter2")
	fmt.Printf("%v %s %q %#v\n", s, s, s, s)
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("read", slog.Any("token", s))
	fmt.Println(len(s.Reveal()), s.Equal(config.NewSecret("hunter2")))
	// Output:
	// [redacted] [redacted] [redacted] [redacted]
	// level=INFO msg=read token=[redacted]
	// 7 true
}

// Settings without an effect are notes, and no reason not to start.
func ExampleConfig_notes() {
	text := `mcpServers:
  files:
    command: npx
    args: [-y, some-server]
    description: The files of the team
    exclude: ["write_*", write_all]
`
	c, err := config.Parse("signalbox.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, note := range c.Notes {
		fmt.Println(note)
	}
	// Output:
	// signalbox.yaml:5:5: "description" is ignored: it specifies how a client shows the server [SB_FILE_DIALECT]
	// signalbox.yaml:6:26: "write_all" adds nothing to "write_*"
}

func ExampleFind() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{".mcp.json", "signalbox.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mcpServers: {}\n"), 0o600); err != nil {
			fmt.Println(err)
			return
		}
		path, ok := config.Find(dir)
		fmt.Println(filepath.Base(path), ok)
	}
	// Output:
	// .mcp.json true
	// signalbox.yaml true
}
