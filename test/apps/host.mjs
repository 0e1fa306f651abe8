// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// A host that runs apps, without a browser: the client of the SDK, AppBridge, and in place of
// the page the class App, connected to the bridge in memory.
//
// It reads an array of jobs from standard input. A job is a session with a target that has
// servers behind it. For each it prints lines {server, check, ok, error}, or, if the job asks for
// what a server has, one line {server, tools, resources, pages}. Some jobs run at the same time.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text as read } from 'node:stream/consumers';
import { deepStrictEqual as same } from 'node:assert';
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { App } from '@modelcontextprotocol/ext-apps';
import { AppBridge, getToolUiResourceUri, isToolVisibilityAppOnly, isToolVisibilityModelOnly, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/app-bridge';
import { documentIn, plain } from './servers.mjs';

const ui = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } } };
const INVALID_PARAMS = -32602;
const modernVersion = '2026-07-28';

// argumentsOf are the arguments of the tools that need some, and of those that would otherwise
// use the network: they answer that an argument is missing, or that there is no such request.
const argumentsOf = (name, { records }) => ({ ...given[name], ...(files.has(name) ? { url: documentIn(records) } : {}) });
const files = new Set(['display_pdf', 'read_pdf_bytes', 'save_pdf']);
const given = {
  'debug-log': { type: 'signal', payload: { aspect: 'clear' } },
  'show-map': { west: 10.6, south: 59.8, east: 10.9, north: 60, label: 'Oslo' },
  read_pdf_bytes: { byteCount: 64 },
  submit_page_data: { requestId: 'none', pages: [] },
  submit_save_data: { requestId: 'none' },
  submit_viewer_state: { requestId: 'none', state: '{}' },
  save_pdf: { data: 'JVBERi0xLjQK' },
};

async function connect(job, capabilities) {
  const client = new Client(
    { name: 'host', version: '1.0.0' },
    { capabilities, ...(job.era === 'modern' ? { versionNegotiation: { mode: { pin: modernVersion } } } : {}) },
  );
  await client.connect(transportOf(job));
  return client;
}

function transportOf({ target: { url, token, ...program } }) {
  if (!url) return new StdioClientTransport({ ...program, stderr: 'ignore' });
  return new StreamableHTTPClientTransport(new URL(url), token ? { requestInit: { headers: { Authorization: `Bearer ${token}` } } } : {});
}

const recordOf = (folder, name) => join(folder, `${name}.jsonl`);

function recorded(job, name) {
  try {
    return readFileSync(recordOf(job.records, name), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

// fresh are options of requests that are not answered from the client's cache.
const fresh = { cacheMode: 'refresh' };
const toolsOf = async (client) => sorted((await client.listTools(undefined, fresh)).tools, 'name');
const resourcesOf = async (client) => sorted((await client.listResources(undefined, fresh)).resources, 'uri');
const sorted = (list, key) => list.toSorted((a, b) => (a[key] < b[key] ? -1 : 1));

// truth prints what a server has.
async function truth(job) {
  const client = await connect(job, ui);
  const tools = await toolsOf(client);
  const resources = client.getServerCapabilities().resources ? await resourcesOf(client) : [];
  const pages = {};
  for (const { uri } of resources) pages[uri] = (await client.readResource({ uri }, fresh)).contents;
  await client.close();
  return { tools, resources, pages };
}

// View is what a client sees of one server: under its own names, or behind a gateway with a
// prefix and a label.
class View {
  constructor(server) {
    Object.assign(this, { prefix: '', label: '' }, server);
  }

  uri(own) {
    return this.label ? own.replace(/^ui:\/\//, `ui://${this.label}/`) : own;
  }

  tool(own, face) {
    const shown = structuredClone(own);
    shown.name = this.prefix + own.name;
    if (shown._meta?.ui?.resourceUri) shown._meta.ui.resourceUri = this.uri(shown._meta.ui.resourceUri);
    if (shown._meta?.['ui/resourceUri']) shown._meta['ui/resourceUri'] = this.uri(shown._meta['ui/resourceUri']);
    if (face === 'ui' && this.fenced) shown._meta = { ...shown._meta, ui: { visibility: ['model'] } };
    return shown;
  }

  contents(own) {
    return own.map((one) => ({ ...one, uri: this.uri(one.uri) }));
  }

  // of selects the server's items from a list.
  of(list, key) {
    if (!this.prefix) return list;
    const own = key === 'uri' ? `ui://${this.label}/` : this.prefix;
    return list.filter((item) => item[key].startsWith(own));
  }
}

const appCallable = (tool) => !isToolVisibilityModelOnly(tool);

// open runs a tool with an app as a host does: the model calls it, the host reads its page and
// gives the page the arguments and the result. It returns the page's side.
async function open(job, client, offered, view, own) {
  const params = { name: view.prefix + own.name, arguments: argumentsOf(own.name, job) };
  const result = await once(job, view.name, own.name, params.arguments, () => client.request({ method: 'tools/call', params }));

  const bridge = new AppBridge(client, { name: 'host', version: '1.0.0' }, { serverTools: {}, serverResources: {} });
  const app = new App({ name: view.name, version: '1.0.0' }, {}, { autoResize: false });
  const got = { input: waiting(), result: waiting() };
  app.ontoolinput = got.input.resolve;
  app.ontoolresult = got.result.resolve;
  const initialized = waiting();
  bridge.oninitialized = initialized.resolve;
  const [host, page] = InMemoryTransport.createLinkedPair();
  await bridge.connect(host);
  fence(bridge, offered);
  await app.connect(page);
  await initialized.promise;
  await bridge.sendToolInput({ arguments: params.arguments });
  await bridge.sendToolResult(result);
  same((await got.input.promise).arguments, params.arguments);
  same(withoutHop(await got.result.promise), withoutHop(result));
  return { app, close: () => bridge.close() };
}

function waiting() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}

class Fenced extends Error {}

// fence refuses what apps must not call, which hosts have to do and the bridge leaves to them.
function fence(bridge, offered) {
  const forward = bridge.oncalltool;
  bridge.oncalltool = async (params, context) => {
    const tool = offered.find(({ name }) => name === params.name);
    if (tool && isToolVisibilityModelOnly(tool)) throw new Fenced(`the host does not let an app call ${params.name}`);
    return forward(params, context);
  };
}

// withoutHop is a result without what each hop has of its own.
function withoutHop(result) {
  const { resultType, _meta: { 'io.modelcontextprotocol/serverInfo': _, ...meta } = {}, ...rest } = result;
  return Object.keys(meta).length ? { ...rest, _meta: meta } : rest;
}

// once makes a call that has to arrive at the server once, under the server's name, and to
// have the server's answer. It returns the answer.
async function once(job, server, name, args, call) {
  const before = recorded(job, server).length;
  const got = await call().then((result) => ({ result }), (error) => ({ error }));
  const added = recorded(job, server).slice(before);
  if (added.length !== 1) throw new Error(`${name} arrived ${added.length} times at ${server}: ${reason(got)}`);
  const [{ result, error, ...request }] = added;
  same(request, { name, arguments: args });
  if (error) {
    same({ code: got.error?.code, message: bare(got.error) }, { code: error.code, message: bare(error) });
    return undefined;
  }
  if (got.error) throw new Error(`${name} of ${server}: ${reason(got)}`);
  same(withoutHop(got.result), withoutHop(result));
  return got.result;
}

// bare is a message without the prefix that the SDK adds at each hop.
const bare = (error) => error?.message.replace(/^(MCP error -?\d+: )+/, '');
const reason = ({ result, error }) => (error ? `${error.code} ${error.message}` : JSON.stringify(result)?.slice(0, 200));

// refused makes a request that must fail and reach no server.
async function refused(job, pattern, request) {
  const count = () => job.all.map((name) => recorded(job, name).length);
  const before = count();
  const got = await request().then((result) => ({ result }), (error) => ({ error }));
  if (!got.error) throw new Error(`it was answered: ${reason(got)}`);
  if (!pattern.test(reason(got))) throw new Error(`it was refused with ${reason(got)}, not with ${pattern}`);
  same(count(), before);
}

const unknown = new RegExp(`^${INVALID_PARAMS} `);
const notFound = /^(-32002|-32602) .*resource/i;

// checks are what a host does with a server. Each throws an error if it finds something wrong.
const checks = {
  // The tools and resources are those of the server, with all their members.
  async listed({ view, offered, resources }) {
    same(view.of(offered, 'name'), sorted(view.tools.map((tool) => view.tool(tool, 'ui')), 'name'));
    same(view.of(resources, 'uri'), sorted(view.resources.map((one) => ({ ...one, ...named(view, one) })), 'uri'));
  },

  // The page of each tool is that server's page.
  async page({ client, view, offered }) {
    for (const tool of view.of(offered, 'name')) {
      const uri = getToolUiResourceUri(tool);
      if (!uri) continue;
      const own = getToolUiResourceUri(view.tools.find(({ name }) => view.prefix + name === tool.name));
      same((await client.readResource({ uri }, fresh)).contents, view.contents(view.pages[own]));
    }
  },

  // The app calls each tool that it may call by the server's name for it.
  async calls(at) {
    const callable = at.view.tools.filter(appCallable);
    const inPage = Object.values(at.view.pages).flatMap(([{ text }]) => [...text.matchAll(/callServerTool\(\{name:"([^"]+)"/g)].map(([, name]) => name));
    for (const name of inPage) if (!callable.some((tool) => tool.name === name)) throw new Error(`the page calls ${name}, which is not checked`);
    await withApp(at, async (app) => {
      for (const { name } of callable) {
        const args = argumentsOf(name, at.job);
        await once(at.job, at.view.name, name, args, () => app.callServerTool({ name, arguments: args }));
      }
    });
  },

  // The app reads a resource of its server by the server's URI.
  async read(at) {
    await withApp(at, async (app) => {
      for (const [uri, contents] of Object.entries(at.view.pages)) {
        const got = (await app.readServerResource({ uri })).contents;
        same(got.map(({ text }) => text), contents.map(({ text }) => text));
      }
    });
  },

  // A client that does not render apps sees no tool for apps alone, and cannot call one; the
  // own names of tools are not for it.
  async hidden({ job, view, blind, shown }) {
    const own = view.tools.filter((tool) => !isToolVisibilityAppOnly(tool));
    same(view.of(shown, 'name'), sorted(own.map((tool) => view.tool(tool)), 'name'));
    for (const tool of view.tools) {
      const names = isToolVisibilityAppOnly(tool) ? [view.prefix + tool.name] : [];
      if (view.prefix) names.push(tool.name);
      for (const name of names) {
        const params = { name, arguments: argumentsOf(tool.name, job) };
        await refused(job, unknown, () => blind.request({ method: 'tools/call', params }));
      }
    }
  },

  // The app cannot call a tool of a server without apps: the host refuses the name that is
  // offered, and the gateway the server's own.
  async fence(at) {
    await withApp(at, async (app) => {
      const there = at.offered.some(({ name }) => name === `${plain}__note`);
      await refused(at.job, there ? /the host does not let an app call/ : unknown, () => app.callServerTool({ name: `${plain}__note`, arguments: {} }));
      await refused(at.job, unknown, () => app.callServerTool({ name: 'note', arguments: {} }));
    });
  },

  // Several servers have the name and the URI, so neither can be used.
  async ambiguous(at) {
    await withApp(at, async (app) => {
      for (const { name } of at.view.tools) await refused(at.job, several(at, name), () => app.callServerTool({ name, arguments: {} }));
      for (const uri of Object.keys(at.view.pages)) await refused(at.job, notFound, () => app.readServerResource({ uri }));
    });
  },
};

// several is the error of a call by a name that several servers have.
function several({ offered }, name) {
  const names = offered.map((tool) => tool.name).filter((one) => one.endsWith(`__${name}`));
  return new RegExp(`^${INVALID_PARAMS} "${name}" is a tool of ${names.length} servers here \\(${names.join(', ')}\\); give them profiles of their own`);
}

// named are the members of a resource that name it.
function named(view, { uri, name }) {
  return { uri: view.uri(uri), name };
}

// withApp opens the app of a server.
async function withApp({ job, client, view, offered }, use) {
  const tool = view.tools.find((one) => getToolUiResourceUri(one) && !isToolVisibilityAppOnly(one));
  const { app, close } = await open(job, client, offered, view, tool);
  try {
    await use(app);
  } finally {
    await close();
  }
}

// tryAll prints the outcomes of a job.
async function tryAll(job) {
  const clients = {};
  const print = (server, check, error) => say({ server, check, ok: !error, error: error && describe(error) });
  try {
    clients.client = await connect(job, ui);
    const resources = await resourcesOf(clients.client);
    const offered = await toolsOf(clients.client);
    const shown = job.servers.some((server) => server.checks.includes('hidden')) ? await toolsOf((clients.blind = await connect(job, {}))) : [];
    for (const server of job.servers) {
      for (const check of server.checks) {
        const at = { job, ...clients, offered, resources, shown, view: new View(server) };
        await checks[check](at).then(() => print(server.name, check), (error) => print(server.name, check, error));
      }
    }
  } catch (error) {
    for (const server of job.servers) print(server.name, 'connect', error);
  } finally {
    for (const one of Object.values(clients)) await one.close();
  }
}

const describe = (error) => String(error.code ? `${error.code} ${error.message}` : error.message).slice(0, 2000);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// sessions is the number of jobs at the same time.
const sessions = 4;

async function work(jobs) {
  for (let job = jobs.shift(); job; job = jobs.shift()) {
    if (job.truth) say({ server: job.servers[0].name, ...(await truth(job)) });
    else await tryAll(job);
  }
}

const jobs = JSON.parse(await read(process.stdin));
await Promise.all(Array.from({ length: sessions }, () => work(jobs)));
