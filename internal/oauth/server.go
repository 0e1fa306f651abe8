// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import "slices"

// A Server is the metadata of an authorization server that has passed all checks (RFC 8414,
// and OpenID Connect Discovery 1.0). It is immutable. The endpoints are URLs with https, or
// with http on loopback where the backend is; "" is an endpoint that the server does not
// have. Texts are byte for byte as published.
type Server struct {
	Issuer                string `json:"issuer"`
	AuthorizationEndpoint string `json:"authorization_endpoint"`
	TokenEndpoint         string `json:"token_endpoint"`
	RegistrationEndpoint  string `json:"registration_endpoint"`
	RevocationEndpoint    string `json:"revocation_endpoint"`
	IntrospectionEndpoint string `json:"introspection_endpoint"`
	JWKSURI               string `json:"jwks_uri"`

	// A list is nil if it is absent.
	Scopes               []string `json:"scopes_supported"`
	AuthMethods          []string `json:"token_endpoint_auth_methods_supported"`
	SigningAlgs          []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionMethods []string `json:"introspection_endpoint_auth_methods_supported"`
	IntrospectionAlgs    []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	SubjectTypes         []string `json:"subject_types_supported"` // of OpenID Connect

	ResponseIss bool `json:"authorization_response_iss_parameter_supported"`
	MetadataID  bool `json:"client_id_metadata_document_supported"`

	S256       bool `json:"-"` // code_challenge_methods_supported has S256
	FixedPaths bool `json:"-"` // the endpoints are those of revision 2025-03-26, without metadata
}

// serverMetadata is a document of RFC 8414.
type serverMetadata struct {
	Server
	ChallengeMethods []string `json:"code_challenge_methods_supported"`
}

// checkServer checks a document that was read at a well-known URL of an issuer.
func (c *Client) checkServer(at, issuer string, doc *serverMetadata, code bool) (*Server, error) {
	if doc.Issuer != issuer {
		return nil, &CheckError{Check: CheckIssuer, At: at, Got: doc.Issuer, Want: quoted(issuer)}
	}
	for _, e := range []struct {
		name, url string
		required  bool
	}{
		{"authorization_endpoint", doc.AuthorizationEndpoint, code},
		{"token_endpoint", doc.TokenEndpoint, true},
		{"registration_endpoint", doc.RegistrationEndpoint, false},
		{"revocation_endpoint", doc.RevocationEndpoint, false},
		{"introspection_endpoint", doc.IntrospectionEndpoint, false},
		{"jwks_uri", doc.JWKSURI, false},
	} {
		if e.url == "" && e.required {
			return nil, &CheckError{Check: CheckEndpoint, At: at, Want: "a value of " + e.name}
		}
		if e.url == "" {
			continue
		}
		if err := c.checkURL(e.name, e.url); err != nil {
			return nil, err
		}
	}
	s := &doc.Server
	s.S256 = slices.Contains(doc.ChallengeMethods, "S256")
	if code && !s.S256 {
		return nil, errNoPKCE(at)
	}
	return s, nil
}

// IsPairwise reports whether the server gives each client another subject of a user, and no
// client the same (OpenID Connect Core 1.0, section 8).
func (s *Server) IsPairwise() bool {
	return len(s.SubjectTypes) == 1 && s.SubjectTypes[0] == "pairwise"
}

func errNoPKCE(at string) error {
	return &CheckError{Check: CheckPKCE, At: at, Want: "S256, without which a sign-in is not protected"}
}
