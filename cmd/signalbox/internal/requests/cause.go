// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// causeCode matches what can be the code of a cause: data of any server is printed in no other
// form.
var causeCode = regexp.MustCompile(`^SB_[A-Z_]{1,40}$`)

// withCause adds the code of the cause to the error of a request that a gateway has refused. Why a
// server at a URL is not reached is not the error of a gateway.
func withCause(t *target.Target, err error) error {
	var data struct {
		Code string `json:"code"`
	}
	if fault, ok := errors.AsType[*mcp.Fault](err); ok && t.URL != nil {
		return err
	} else if ok {
		data.Code = fault.Reason
	} else if own, ok := errors.AsType[*mcp.Error](err); !ok || json.Unmarshal(own.Data, &data) != nil {
		return err
	}
	if !causeCode.MatchString(data.Code) {
		return err
	}
	return fmt.Errorf("%w [%s]", err, data.Code)
}
