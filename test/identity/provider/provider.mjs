// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// An authorization server for tests: oidc-provider, with a page on which anybody signs in
// by a name. Its one argument is an object of settings in JSON; see Settings in
// provider.go. It prints its address, and ends at the end of its input.

import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const settings = { groups: {}, clients: [], lifetime: 3600, format: 'jwt', algorithm: 'ES256', ...JSON.parse(process.argv[2]) };
const scopes = ['mcp:use', 'mcp:write', 'mcp:admin'];

const key = (alg, type, options) => ({ ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: `${alg}-${process.pid}` });
const keys = [key('ES256', 'ec', { namedCurve: 'P-256' }), key('RS256', 'rsa', { modulusLength: 2048 })];

const server = createServer();
await new Promise((resolve) => server.listen(settings.port ?? 0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(settings.issuer ?? address, {
  clients: settings.clients,
  jwks: { keys },
  cookies: { keys: [crypto.randomUUID()] },
  scopes: ['openid', 'offline_access', ...scopes],
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: settings.groups[id] ?? [] }) }),
  extraTokenClaims: (ctx, token) => (token.accountId ? { groups: settings.groups[token.accountId] ?? [] } : undefined),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  pkce: { required: () => true },
  // Without the dispatcher, which refuses the addresses of this machine.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  rotateRefreshToken: true,
  ttl: {
    AccessToken: settings.lifetime, ClientCredentials: settings.lifetime, IdToken: settings.lifetime,
    Interaction: 600, Session: 3600, Grant: 86400, RefreshToken: 86400,
  },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    registration: { enabled: settings.registration !== false },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: scopes.join(' '),
        audience: resource,
        accessTokenTTL: settings.lifetime,
        accessTokenFormat: settings.format,
        jwt: { sign: { alg: settings.algorithm } },
      }),
    },
  },
});
// A client registers with the scopes of its first challenge. This server gives it all,
// as RFC 7591, section 3.2.1 allows: otherwise no client could ask for more later.
provider.use(async (ctx, next) => {
  if (ctx.method === 'POST' && ctx.path === '/reg') {
    let text = '';
    for await (const part of ctx.req) text += part;
    const { scope, ...rest } = JSON.parse(text);
    ctx.req.body = rest;
  }
  await next();
});
for (const event of ['server_error', 'authorization.error', 'grant.error', 'registration_create.error']) {
  provider.on(event, (ctx, error) => console.error(event, error.message, error.error_description ?? '', error.stack));
}

const page = (title, body) => `<!DOCTYPE html><html><head><title>${title}</title></head><body><h1>${title}</h1>${body}</body></html>`;
const html = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

async function show(req, res) {
  const { uid, prompt, params } = await provider.interactionDetails(req, res);
  const client = html(params.client_id);
  const form = (body) => `<form method="post" action="/interaction/${uid}">${body}</form>`;
  res.setHeader('content-type', 'text/html; charset=utf-8');
  res.setHeader('cache-control', 'no-store');
  res.end(prompt.name === 'login'
    ? page('Sign in', form('<label>Name <input name="login" required></label><button type="submit">Sign in</button>'))
    : page(`Allow ${client}?`, form('<button name="answer" value="allow">Allow</button><button name="answer" value="deny">Deny</button>')));
}

async function submit(req, res) {
  let text = '';
  for await (const part of req) text += part;
  const answers = new URLSearchParams(text);
  const details = await provider.interactionDetails(req, res);
  if (answers.get('answer') === 'deny') {
    const refused = { error: 'access_denied', error_description: 'the user said no' };
    return provider.interactionFinished(req, res, refused, { mergeWithLastSubmission: false });
  }
  if (details.prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: answers.get('login') } }, { mergeWithLastSubmission: false });
  }
  const grant = details.grantId
    ? await provider.Grant.find(details.grantId)
    : new provider.Grant({ accountId: details.session.accountId, clientId: details.params.client_id });
  const missing = details.prompt.details;
  if (missing.missingOIDCScope) grant.addOIDCScope(missing.missingOIDCScope.join(' '));
  if (missing.missingOIDCClaims) grant.addOIDCClaims(missing.missingOIDCClaims);
  for (const [resource, of] of Object.entries(missing.missingResourceScopes ?? {})) grant.addResourceScope(resource, of.join(' '));
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on('request', async (req, res) => {
  if (!req.url.startsWith('/interaction/')) return callback(req, res);
  try {
    await (req.method === 'POST' ? submit(req, res) : show(req, res));
  } catch (error) {
    console.error('interaction', error.stack);
    res.statusCode = 400;
    res.end(page('This sign-in cannot go on', ''));
  }
});

process.stdin.on('end', () => process.exit(0)).resume();
console.log(`listening on ${address}`);
