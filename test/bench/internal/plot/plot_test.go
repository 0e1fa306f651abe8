// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// parse fails unless a drawing is well-formed, and counts its elements.
func parse(t *testing.T, svg string) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
}

func TestSVG(t *testing.T) {
	p := Plot{Title: "a < b & c", X: "x", Y: "y", Lines: []Line{
		{Name: "one", Points: []Point{{1, 0.1}, {10, 1}, {100, 20}}},
		{Name: "two", Points: []Point{{1, 3}}},
	}}
	counts := parse(t, p.SVG())
	if counts["circle"] != 4 || counts["svg"] != 1 {
		t.Errorf("%v, want a circle for each of 4 points", counts)
	}
}

func TestSVGOfLittle(t *testing.T) {
	for name, p := range map[string]Plot{
		"nothing":   {Title: "t"},
		"one point": {Lines: []Line{{Points: []Point{{5, 5}}}}},
		"no points": {Lines: []Line{{Name: "l"}}},
	} {
		svg := p.SVG()
		parse(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: a coordinate that is none:\n%s", name, svg)
		}
	}
}

func TestScaleIsLogarithmic(t *testing.T) {
	s := scale{low: 1, high: 100, from: 0, to: 200}
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200} {
		if got := s.at(v); got < want-0.001 || got > want+0.001 {
			t.Errorf("%v stands at %v, want %v", v, got, want)
		}
	}
}
