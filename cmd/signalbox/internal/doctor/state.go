// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// checkState returns the finding on the state folder of a file, if a gateway cannot write there.
func checkState(e *command.Env, file string) (check.Finding, bool) {
	folder, err := source.StateFolder(e, file)
	if err == nil {
		err = writable(folder)
	}
	if err == nil {
		return check.Finding{}, false
	}
	return check.Finding{
		Kind: "state", Name: "state", Result: check.Warn, Code: code.StateReadonly,
		Text: fmt.Sprintf("a gateway keeps neither lists nor its log, and other commands do not find it: %v", err),
		Fix:  check.CodeEntry(code.StateReadonly).Cure,
	}, true
}

// writable reports why no file can be made in a folder, or in the nearest one above it that
// exists. The file that it makes for that is removed.
func writable(folder string) error {
	for {
		_, err := os.Stat(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(folder) != folder:
			folder = filepath.Dir(folder)
			continue
		case err != nil:
			return err
		}
		f, err := os.CreateTemp(folder, ".signalbox-*")
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}
