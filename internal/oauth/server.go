// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import "slices"

// A Server is the metadata of an authorization server that has passed all checks (RFC 8414,
// and OpenID Connect Discovery 1.0). It is immutable. The endpoints are URLs with https, or
// with http on loopback where the backend is; "" is an endpoint that the server does not
// have. Texts are byte for byte as published.
type Server struct {
	Issuer                string
	AuthorizationEndpoint string
	TokenEndpoint         string
	RegistrationEndpoint  string
	RevocationEndpoint    string
	IntrospectionEndpoint string
	JWKSURI               string

	Scopes      []string // scopes_supported; nil if absent
	GrantTypes  []string // grant_types_supported; nil if absent
	AuthMethods []string // token_endpoint_auth_methods_supported; nil if absent
	SigningAlgs []string // token_endpoint_auth_signing_alg_values_supported; nil if absent
	// IntrospectionMethods and IntrospectionAlgs are the same for the introspection endpoint.
	IntrospectionMethods []string
	IntrospectionAlgs    []string
	// SubjectTypes are the subject_types_supported of OpenID Connect; nil if absent.
	SubjectTypes []string

	S256        bool // code_challenge_methods_supported has S256
	ResponseIss bool // authorization_response_iss_parameter_supported
	MetadataID  bool // client_id_metadata_document_supported
	FixedPaths  bool // the endpoints are those of revision 2025-03-26, without metadata
}

// serverMetadata is a document of RFC 8414.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	SigningAlgs           []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionMethods  []string `json:"introspection_endpoint_auth_methods_supported"`
	IntrospectionAlgs     []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	SubjectTypes          []string `json:"subject_types_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	ResponseIss           bool     `json:"authorization_response_iss_parameter_supported"`
	MetadataID            bool     `json:"client_id_metadata_document_supported"`
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
	s := &Server{
		Issuer:                doc.Issuer,
		AuthorizationEndpoint: doc.AuthorizationEndpoint,
		TokenEndpoint:         doc.TokenEndpoint,
		RegistrationEndpoint:  doc.RegistrationEndpoint,
		RevocationEndpoint:    doc.RevocationEndpoint,
		IntrospectionEndpoint: doc.IntrospectionEndpoint,
		JWKSURI:               doc.JWKSURI,
		Scopes:                doc.Scopes,
		GrantTypes:            doc.GrantTypes,
		AuthMethods:           doc.AuthMethods,
		SigningAlgs:           doc.SigningAlgs,
		IntrospectionMethods:  doc.IntrospectionMethods,
		IntrospectionAlgs:     doc.IntrospectionAlgs,
		SubjectTypes:          doc.SubjectTypes,
		S256:                  slices.Contains(doc.ChallengeMethods, "S256"),
		ResponseIss:           doc.ResponseIss,
		MetadataID:            doc.MetadataID,
	}
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
