// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plot draws lines over two logarithmic axes, as SVG: a cost against a size.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Point is a point of a line. Both values are positive.
type Point struct{ X, Y float64 }

// Line is a named series of points.
type Line struct {
	Name   string
	Points []Point
}

// Plot is a drawing.
type Plot struct {
	Title, X, Y string // title and axis labels
	Lines       []Line
	// Label formats a value of the X axis; nil formats the number.
	Label func(x float64) string
}

// The dimensions of a drawing, in pixels.
const (
	width, height            = 720, 400
	left, right, top, bottom = 64, 190, 40, 48
)

// colours returns colours that can be distinguished in print and by colour-blind readers.
func colours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"}
}

// scale is a logarithmic axis.
type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 {
	return s.from + (s.to-s.from)*(math.Log(v)-math.Log(s.low))/(math.Log(s.high)-math.Log(s.low))
}

// ticks returns the powers of ten within the axis, and also their twofold and fivefold if
// there are few.
func (s scale) ticks() []float64 {
	steps := []float64{1}
	if s.high/s.low < 100 {
		steps = []float64{1, 2, 5}
	}
	var ticks []float64
	for power := math.Floor(math.Log10(s.low)); power <= math.Log10(s.high); power++ {
		for _, step := range steps {
			if v := step * math.Pow(10, power); v >= s.low*0.999 && v <= s.high*1.001 {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// SVG draws the plot. If an axis has fewer than two different points, it gets room around
// them.
func (p Plot) SVG() string {
	x, y := p.scales()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, left, 22, `font-size="15"`, p.Title)
	text(&b, (left+width-right)/2, height-10, `text-anchor="middle"`, p.X+" (both axes are logarithmic)")
	text(&b, 0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(14 %d) rotate(-90)"`, (top+height-bottom)/2), p.Y)
	p.grid(&b, x, y)
	for i, l := range p.Lines {
		drawLine(&b, l, x, y, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p Plot) scales() (x, y scale) {
	x = scale{low: math.Inf(1), high: 0, from: left, to: width - right}
	y = scale{low: math.Inf(1), high: 0, from: height - bottom, to: top}
	for _, l := range p.Lines {
		for _, pt := range l.Points {
			x.low, x.high = min(x.low, pt.X), max(x.high, pt.X)
			y.low, y.high = min(y.low, pt.Y), max(y.high, pt.Y)
		}
	}
	// A flat line must look flat, so the axis spans at least a factor of ten.
	y.low, y.high = y.low*0.8, y.high*1.25
	if middle := math.Sqrt(y.low * y.high); y.high < 10*y.low {
		y.low, y.high = middle/math.Sqrt(10), middle*math.Sqrt(10)
	}
	if x.low >= x.high {
		x.low, x.high = x.low*0.5, x.high*2
	}
	return x, y
}

func (p Plot) grid(b *strings.Builder, x, y scale) {
	label := p.Label
	if label == nil {
		label = number
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, y.at(v), width-right)
		text(b, left-6, y.at(v)+4, `text-anchor="end"`, number(v))
	}
	seen := make(map[float64]bool)
	for _, l := range p.Lines {
		for _, pt := range l.Points {
			if !seen[pt.X] {
				seen[pt.X] = true
				text(b, x.at(pt.X), height-bottom+18, `text-anchor="middle"`, label(pt.X))
			}
		}
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>`+"\n", left, top, height-bottom, width-right)
}

func drawLine(b *strings.Builder, l Line, x, y scale, index int) {
	colour := colours()[index%len(colours())]
	var path strings.Builder
	for i, pt := range l.Points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x.at(pt.X), y.at(pt.Y))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(pt.X), y.at(pt.Y), colour)
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colour)
	at := float64(top + 8 + 18*index)
	fmt.Fprintf(b, `<path d="M%d %.1fh18" stroke="%s" stroke-width="3"/>`+"\n", width-right+12, at-4, colour)
	text(b, width-right+36, at, "", l.Name)
}

func text(b *strings.Builder, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
