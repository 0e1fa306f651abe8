// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A file has none for no limit, and a Config has noLimit.
const (
	none    = "none"
	noLimit = -1
)

type byteUnit struct {
	name string
	size int64
}

// byteUnits returns the units of sizes, largest first. There are only powers of 1024, as KB
// and MB are ambiguous.
func byteUnits() []byteUnit {
	return []byteUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

var (
	errNoUnit   = errors.New("has no unit")
	errNotASize = errors.New("is not a size")
	errNotATime = errors.New("is not a duration")
	errNotMore  = errors.New("is not more than zero")
	errTooLarge = errors.New("is too large")
)

// parseBytes parses a size such as 4MiB.
func parseBytes(text string) (int64, error) {
	for _, unit := range byteUnits() {
		// Largest first, and B last, as it is a suffix of the others.
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		// The product would overflow.
		case errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64/unit.size:
			return 0, errTooLarge
		case err != nil || digits[0] == '+':
			return 0, errNotASize
		case n <= 0:
			return 0, errNotMore
		}
		return n * unit.size, nil
	}
	if isNumber(text) {
		return 0, errNoUnit
	}
	return 0, errNotASize
}

// formatBytes formats a size in the largest unit that divides it.
func formatBytes(n int64) string {
	for _, unit := range byteUnits() {
		if n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10) // not reached: B divides every number
}

// parseDuration parses a duration such as 30s or 1m30s.
func parseDuration(text string) (time.Duration, error) {
	// A number without a unit could mean seconds or milliseconds.
	if isNumber(text) { // time.ParseDuration accepts a bare 0
		return 0, errNoUnit
	}
	d, err := time.ParseDuration(text)
	switch {
	// A plus sign is not permitted by the schema.
	case err != nil || text[0] == '+':
		return 0, errNotATime
	case d <= 0:
		return 0, errNotMore
	}
	return d, nil
}

// isNumber reports whether text is a number without a unit. Inf and NaN, which strconv
// accepts, are not numbers.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && strings.ContainsAny(text, "0123456789")
}

func durationHint(text string, err error) string {
	// As seconds this would be hours, so it must be milliseconds.
	if n, bad := strconv.ParseInt(text, 10, 64); errors.Is(err, errNoUnit) && bad == nil && n >= 10_000 {
		text := (time.Duration(n) * time.Millisecond).String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return fmt.Sprintf("it looks like milliseconds: write %q", text)
	}
	if errors.Is(err, errNoUnit) {
		return fmt.Sprintf("write %q for seconds or %q for milliseconds", text+"s", text+"ms")
	}
	return `write a number and ms, s, m or h, such as "30s"`
}

func bytesHint(text string, err error) string {
	if n, bad := strconv.ParseInt(text, 10, 64); errors.Is(err, errNoUnit) && bad == nil && n > 0 {
		return fmt.Sprintf("write %q", formatBytes(n))
	}
	return `write a number and B, KiB, MiB or GiB, such as "4MiB"`
}
