// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "flag"

// Update is set to rewrite generated files and the expectations in testdata.
var Update = flag.Bool("update", false, "rewrite what is generated and the expectations in testdata")

// Schema gives the external tests the schema.
var Schema = schema
