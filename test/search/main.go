// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	_ "modernc.org/sqlite"

	"github.com/signalbox-mcp/signalbox/internal/search"
)

func main() {
	livemcp := flag.String("livemcp", "", "a checkout of icip-cas/LiveMCPBench")
	mcpproxy := flag.String("mcpproxy", "", "a checkout of smart-mcp-proxy/mcpproxy-go")
	bfcl := flag.String("bfcl", "", "a checkout of ShishirPatil/gorilla")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *livemcp, *mcpproxy, *bfcl); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, livemcp, mcpproxy, bfcl string) error {
	if livemcp == "" || mcpproxy == "" || bfcl == "" {
		return errors.New("-livemcp, -mcpproxy and -bfcl are needed: folders with checkouts of the three repositories")
	}
	tasks, steps, err := readLiveMCP(livemcp)
	if err != nil {
		return err
	}
	golden, err := readGolden(mcpproxy)
	if err != nil {
		return err
	}
	written, users, err := readBFCL(bfcl)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| queries | recall | FTS5 of SQLite | Signalbox |")
	fmt.Fprintln(out, "|---|---|---|---|")
	for _, r := range []struct {
		set  *set
		most int
	}{{tasks, 5}, {tasks, 10}, {steps, 1}, {steps, 5}, {golden, 5}, {written, 1}, {written, 5}, {users, 1}, {users, 5}} {
		theirs, err := newFTS5(ctx, r.set.tools)
		if err != nil {
			return err
		}
		a, err := r.set.recall(theirs, r.most)
		if err != nil {
			return err
		}
		b, err := r.set.recall(ours{search.New(r.set.tools)}, r.most)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %d %s, %d tools | @%d | %.3f | %.3f |\n", len(r.set.queries), r.set.name, len(r.set.tools), r.most, a, b)
		if err := theirs.Close(); err != nil {
			return err
		}
	}
	return nil
}

// set is a set of tools with annotated queries.
type set struct {
	name    string
	tools   []search.Tool
	queries []query
}

// query is a text with the names of the tools that it needs, as keys.
type query struct {
	text  string
	needs map[string]bool
}

// engine finds tools.
type engine interface {
	find(text string, most int) ([]int, error)
}

// recall returns which part of the tools that a query needs is among the first ones, on average.
func (s *set) recall(e engine, most int) (float64, error) {
	var sum float64
	for _, q := range s.queries {
		hits, err := e.find(q.text, most)
		if err != nil {
			return 0, fmt.Errorf("query %q: %w", q.text, err)
		}
		found := make(map[string]bool) // several servers may have a tool of the name
		for _, i := range hits {
			if name := s.tools[i].Name; q.needs[name] {
				found[name] = true
			}
		}
		sum += float64(len(found)) / float64(len(q.needs))
	}
	return sum / float64(len(s.queries)), nil
}

// ours is internal/search.
type ours struct{ *search.Index }

func (x ours) find(text string, most int) (found []int, _ error) {
	for _, h := range x.Search(text, most) {
		found = append(found, h.Tool)
	}
	return found, nil
}

// fts5 is the full-text search of SQLite, with its stemmer of English, any word of the query, and
// its own ranking (BM25).
type fts5 struct{ *sql.DB }

func newFTS5(ctx context.Context, tools []search.Tool) (*fts5, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	if _, err := db.ExecContext(ctx, `CREATE VIRTUAL TABLE tools USING fts5(name, description, tokenize = 'porter')`); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for i := range tools {
		if _, err := db.ExecContext(ctx, `INSERT INTO tools(rowid, name, description) VALUES (?, ?, ?)`, i+1, tools[i].Name, tools[i].Description); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &fts5{db}, nil
}

func (x *fts5) find(text string, most int) (found []int, _ error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		words[i] = `"` + w + `"`
	}
	rows, err := x.QueryContext(context.Background(), `SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?`, strings.Join(words, " OR "), most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		found = append(found, id-1)
	}
	return found, rows.Err()
}
