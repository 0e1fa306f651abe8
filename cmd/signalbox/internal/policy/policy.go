// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy has the command policy: it tries the policy of a configuration file on cases,
// and explains a decision. It makes no request of a client.
package policy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// New returns the command with its subcommands.
func New(e *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try the policy of a configuration file",
		Long: `Try the policy of a configuration file: on cases in a file, or on one request.

The policy is that of the file, which a running gateway may not have read yet. The items are
those that the last gateway of the file has listed; a server without kept lists is started
and ended again. No request of a client is made.`,
		Args: command.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTest(e), newWhy(e))
	return cmd
}

func newTest(e *command.Env) *cobra.Command {
	var f target.Flags
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Check what callers may do against cases in a file",
		Long: `Check what callers may do against the cases in FILE, and print each expectation with the
rule that decided. It fails if one is not met.

  cases:
    - name: staff
      as: {principal: "corp:8f3a", scopes: ["mcp:use"], claims: {groups: [staff]}}
      may: [jira__get, {call: deploy__run, args: {env: test}}]
      mayNot: [{call: deploy__run, args: {env: prod}}]
      needs: [jira__create]
      confirm: [jira__delete]
      sees: ["jira__*", deploy__run]

may are calls that are allowed at once, mayNot those that are not, needs those for which the
caller lacks scopes, and confirm those about which the user is asked. A call by name only has no arguments. sees are all items that the caller
sees, by names or patterns. as may also have issuer, subject, via (such as jwt), era (modern
or legacy) and client {name, version}; scopes, issuer and subject are taken from the claims
if they are not there.`,
		Args: command.ArgsBetween(1, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return test(cmd.Context(), e, &f, args[0])
		},
	}
	source.Flag(cmd, &f.Config)
	profiles.Flag(cmd, &f.Profile, "for clients of this `PROFILE` of the gateway")
	return cmd
}

func newWhy(e *command.Env) *cobra.Command {
	var f target.Flags
	var as, method string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why --as FILE NAME [ARGUMENTS]",
		Short: "Explain the decision about a request",
		Long: `Explain the decision about a request for the tool, prompt, resource or template NAME: each
rule with its value, and the outcome. ARGUMENTS are those of the call, an object of JSON.
Without them the decision is about all calls, as for a list.

FILE describes the caller: an object with principal, claims, scopes, issuer, subject, via, era
and client, in YAML or JSON. "-" is the anonymous caller.`,
		Args: command.ArgsBetween(1, 2, "NAME and at most one text of JSON"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as == "" {
				return command.Usagef("--as is missing: a FILE that describes the caller, or - for the anonymous one")
			}
			q := signalbox.PolicyQuestion{Name: args[0], Method: method, AnyCall: len(args) == 1}
			if len(args) == 2 {
				if q.Arguments = []byte(args[1]); !jsontext.Value(q.Arguments).IsValid() || jsontext.Value(q.Arguments).Kind() != '{' {
					return command.Usagef("the arguments are not an object of JSON")
				}
			}
			return why(cmd.Context(), e, &f, as, &q, asJSON)
		},
	}
	source.Flag(cmd, &f.Config)
	profiles.Flag(cmd, &f.Profile, "for clients of this `PROFILE` of the gateway")
	command.AddWord(cmd, &as, "as", "", "the `FILE` that describes the caller, or - for the anonymous one")
	command.AddWord(cmd, &method, "method", "", "the `METHOD` of the request, if it is not the one by which such an item is called")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the explanation as JSON")
	return cmd
}

// WithLists calls work with a gateway of the file that knows its items: from kept lists, or from
// servers that are started for it.
func WithLists(ctx context.Context, e *command.Env, f *target.Flags, work func(*signalbox.Gateway) error) error {
	src := source.Find(e, f.Config)
	own := *f
	own.Alone, own.Lists = true, src.ListsFolder(e)
	return own.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		if has, _ := t.Gateway.HasPolicy(); !has {
			t.Status = nil // no server matters
			return fmt.Errorf("%s has no policy", cmp.Or(src.Path, "the demo"))
		}
		if err := t.AwaitLists(ctx); err != nil {
			return err
		}
		return work(t.Gateway)
	})
}

// Ask makes a question about the caller that a file describes, and returns a description of the
// caller for people; "-" is the anonymous one.
func Ask(e *command.Env, as string, q *signalbox.PolicyQuestion) (string, error) {
	var who caller
	if as != "-" {
		text, err := os.ReadFile(e.Path(as))
		if err != nil {
			return "", fmt.Errorf("read the caller: %w", err)
		}
		if who, err = readCaller(as, text); err != nil {
			return "", err
		}
	}
	q.Identity, q.Client = who.identity(), who.peer()
	return who.String(), nil
}

func why(ctx context.Context, e *command.Env, f *target.Flags, as string, q *signalbox.PolicyQuestion, asJSON bool) error {
	who, err := Ask(e, as, q)
	if err != nil {
		return err
	}
	q.Profile = f.Profile
	return WithLists(ctx, e, f, func(g *signalbox.Gateway) error {
		found := g.ExplainPolicy(q)
		if len(found) == 0 {
			return fmt.Errorf("no item has the name %q; 'signalbox why' explains names", q.Name)
		}
		if asJSON {
			return e.PrintValue(found)
		}
		var b bytes.Buffer
		for i := range found {
			writeExplanation(&b, &found[i], who)
		}
		if _, dryRun := g.HasPolicy(); dryRun {
			b.WriteString("The policy is a dry run: nothing is refused, and everything is seen.\n")
		}
		_, err := e.Stdout.Write(b.Bytes())
		return err
	})
}

// writeExplanation writes a decision for people.
func writeExplanation(b *bytes.Buffer, x *signalbox.PolicyExplanation, who string) {
	line := func(format string, args ...any) {
		b.WriteString("  " + output.VisibleLine(fmt.Sprintf(format, args...)) + "\n")
	}
	b.WriteString(output.VisibleLine(fmt.Sprintf("%s %s of server %s: %s", x.Kind, x.Name, x.Backend, x)) + "\n")
	line("caller: %s", who)
	for _, r := range x.Rules {
		value := r.Value
		switch {
		case r.Matches == "false":
			value = "is not about it"
		case r.Error != "":
			value += ": " + r.Error
		}
		if len(r.Missing) > 0 {
			value += "; the caller lacks " + strings.Join(r.Missing, " ")
		}
		line("%s %s: %s", r.Kind, r.Name, value)
	}
	seen := "listed"
	if !x.Listed {
		seen = "not listed, and answered like an unknown name"
	}
	line("view %.8s: %s", x.Class, seen)
}
