// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"os"

	"github.com/signalbox-mcp/signalbox/config"
)

func ExampleParse() {
	text := `
mcpServers:
  files: {command: npx, args: [-y, some-server]}
  tickets: {url: "https://tickets.example.com/mcp", prefix: t_}
`
	c, err := config.Parse("signalbox.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range c.Servers {
		fmt.Println(s.Name, s.Transport(), s.NamePrefix()+"search")
	}
	fmt.Println(c.Effective().Listen)
	// Output:
	// files stdio files__search
	// tickets http t_search
	// 127.0.0.1:7777
}

func ExampleParse_problems() {
	text := `{
  "mcpServers": {"files": {"comand": "npx", "timeout": 30}}
}`
	_, err := config.Parse("signalbox.json", []byte(text), os.LookupEnv)
	fmt.Println(err)
	// Output:
	// signalbox.json:2:28: unknown key "comand" (did you mean "command"?)
	// signalbox.json:2:56: "timeout" must be a duration, but "30" has no unit (write "30s" for seconds or "30ms" for milliseconds)
}
