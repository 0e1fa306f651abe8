// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package add

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/secrets"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/envfile"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// importOutput is the files that import writes.
type importOutput struct {
	target        string
	file          *safefile.File // the configuration
	before, after configedit.File

	secrets    secrets.File
	secretFile *safefile.File
	values     map[string]string // in the file with secrets
	unusable   error             // why that file cannot be written, or nil
	newValues  []imports.Secret  // those to add to it
	written    time.Time         // when the writes began
}

// read reads the configuration and the file with its secrets.
func (o *importOutput) read() error {
	var err error
	if o.file, err = readTarget(o.target); err != nil {
		return err
	}
	o.before = configedit.File{Name: o.target, Text: o.file.Text}
	o.secrets = secrets.FileOf(o.before)
	o.values = make(map[string]string)
	if _, err := os.Stat(filepath.Dir(o.target)); errors.Is(err, fs.ErrNotExist) {
		o.secretFile = &safefile.File{}
		return nil
	}
	file, vars, err := o.secrets.Read()
	o.secretFile, o.unusable = file, err
	for _, v := range vars {
		o.values[v.Name] = v.Value
	}
	return nil
}

// lookup returns a function for the variables as a gateway finds them.
func (o *importOutput) lookup(env func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if value, set := env(name); value != "" {
			return value, set
		}
		value, set := o.values[name]
		return value, set
	}
}

// moveSecrets moves the literal secrets of servers to the file with secrets.
func (o *importOutput) moveSecrets(servers []imports.Server, env func(string) (string, bool)) error {
	references := o.before.References()
	moved := imports.MoveSecrets(servers, func(name, value string) bool {
		if set, _ := env(name); set != "" && set != value {
			return false // it would have precedence
		}
		if old, exists := o.values[name]; exists {
			return old == value
		}
		return !slices.ContainsFunc(references, func(r configedit.Reference) bool { return r.Name == name })
	})
	for _, s := range moved {
		if _, exists := o.values[s.Name]; !exists {
			o.newValues = append(o.newValues, s)
		}
	}
	if o.unusable != nil && len(o.newValues) > 0 {
		return fmt.Errorf("%w\nnothing was written; --keep-secrets copies credentials into the configuration instead", o.unusable)
	}
	return nil
}

// willWrite describes what is written after the question.
func willWrite(e *command.Env, o *importOutput, servers int) string {
	text := fmt.Sprintf("Will write %s (new, %s)", e.Tilde(o.target), output.Plural(servers, "server"))
	if o.file.Exists {
		text = fmt.Sprintf("Will write %s (%s)", e.Tilde(o.target), output.Plural(servers, "new server"))
	}
	switch count := len(o.newValues); {
	case count == 0:
	case o.secretFile.Exists:
		text += fmt.Sprintf(" and %s (%s)", config.SecretsName, output.Plural(count, "new value"))
	default:
		text += fmt.Sprintf(" and %s (0600, %s)", config.SecretsName, output.Plural(count, "value"))
	}
	return text + ". No other file changes.\n"
}

// writeImported writes the secrets, and then the configuration that refers to them.
func writeImported(ctx context.Context, e *command.Env, o *importOutput) error {
	if err := os.MkdirAll(filepath.Dir(o.target), 0o700); err != nil {
		return err
	}
	o.written = time.Now()
	if len(o.newValues) > 0 {
		text := string(o.secretFile.Text)
		for _, s := range o.newValues {
			var err error
			if text, err = envfile.Set(text, s.Name, s.Value); err != nil {
				return fmt.Errorf("%s: %w; nothing was written (--keep-secrets copies it into the configuration)", s.Name, err)
			}
		}
		if err := replaceFile(ctx, o.secrets.Path, o.secretFile, secrets.MaxSize, text, source.EditLock(e, o.secrets.Path)); err != nil {
			return fmt.Errorf("nothing was written: %w", err)
		}
		secrets.NoteRepository(e, o.secrets.Path)
	}
	err := replaceFile(ctx, o.target, o.file, configedit.MaxSize, string(o.after.Text), source.EditLock(e, o.target))
	if err != nil && len(o.newValues) > 0 {
		err = fmt.Errorf("%w\n%s has the credentials already, and no server was written: import again", err, e.Tilde(o.secrets.Path))
	}
	return err
}

// replaceFile writes a file, in a folder that may be new.
func replaceFile(ctx context.Context, path string, file *safefile.File, limit int64, text, lock string) error {
	if !file.Exists {
		again, err := safefile.Read(path, limit)
		if err != nil {
			return err
		}
		if again.Exists {
			return fmt.Errorf("%s: %w", path, safefile.ErrChanged)
		}
		file = again
	}
	return file.Replace(ctx, []byte(text), lock)
}

// importNext describes what was written, unless a question has said it, and what is left to
// do.
func importNext(e *command.Env, f importFlags, in *found, o *importOutput, servers []imports.Server) string {
	var b strings.Builder
	if f.yes || !e.Terminal(e.Stdin) {
		fmt.Fprintf(&b, "wrote %s: %s\n", e.Tilde(o.target), output.Plural(len(servers), "new server"))
		if len(o.newValues) > 0 {
			fmt.Fprintf(&b, "wrote %s: %s\n", e.Tilde(o.secrets.Path), output.Plural(len(o.newValues), "new value"))
		}
	}
	for _, s := range o.newValues {
		o.values[s.Name] = s.Value
	}
	lookup := o.lookup(e.LookupEnv)
	at := ""
	if o.target != defaultConfig(e) {
		at = " --config " + e.ShellPath(o.target)
	}
	missing := missingVariables(servers, lookup)
	slices.Sort(missing)
	if len(missing) > 0 {
		fmt.Fprintf(&b, "to be set: %s (with 'signalbox secret set NAME%s', or in the environment)\n", strings.Join(missing, ", "), at)
	}
	for i := range servers {
		var steps []string
		for _, name := range servers[i].Placeholders {
			if _, set := lookup(name); !set {
				steps = append(steps, "signalbox secret set "+name+at)
			}
		}
		if servers[i].Unfinished {
			steps = append([]string{"write the real values into " + e.Tilde(o.target)}, steps...)
		}
		if len(servers[i].Placeholders) > 0 || servers[i].Unfinished {
			fmt.Fprintf(&b, "to use %s: %s\n", servers[i].Name, strings.Join(append(steps, "signalbox enable "+servers[i].Name+at), ", then "))
		}
	}
	b.WriteString("Next: signalbox doctor" + at)
	if in.client != "" && at == "" {
		b.WriteString(", then signalbox connect " + in.client)
	}
	return b.String() + "\n"
}

// missingVariables returns the variables that enabled servers need and that are not set.
func missingVariables(servers []imports.Server, lookup func(string) (string, bool)) (missing []string) {
	for i := range servers {
		for _, name := range servers[i].Variables {
			if _, set := lookup(name); !set && !servers[i].Disabled && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// defaultConfig returns the absolute path of the file that commands use without a flag.
func defaultConfig(e *command.Env) string {
	path, err := filepath.Abs(source.Find(e, "").Path)
	if err != nil {
		return ""
	}
	return path
}
