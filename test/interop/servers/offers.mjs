// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The common part of the servers built with the TypeScript SDKs, equivalent to
// goserver. A server supplies its SDK's functions for notifications and questions;
// the results are plain data that both SDKs accept.

import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

// Less than the number of tools, so that a client that lists them must follow a cursor.
const PAGE_SIZE = 4;
// How long the tool witness waits.
const WITNESS_MS = 60_000;
// Separates the progress notifications from each other and from the result.
const STEP_PAUSE_MS = 50;

const LANGUAGES = ['norsk', 'nynorsk', 'suomi'];
const ITEMS = ['41', '42'];

const string = { type: 'string' };
const takes = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });

const INPUTS = {
  brew: takes({ text: string }),
  block: takes({ key: string }),
  change: takes({ name: string, remove: { type: 'boolean' } }, ['name']),
  echo: takes({ text: string }),
  elicit: takes({}),
  header: takes({ region: { type: 'string', 'x-mcp-header': 'Region' } }),
  keep: takes({ key: string }),
  kinds: takes({}),
  log: takes({ text: string }),
  measure: takes({}),
  roots: takes({}),
  sample: takes({}),
  several: takes({}),
  steps: takes({ steps: { type: 'integer' } }),
  touch: takes({ uri: string }),
  use: takes({}),
  visit: takes({}),
  witness: takes({ key: string, state: string }),
};

const OUTPUTS = { measure: takes({ depth: string }) };

const GREETING = 'interop://greeting';
// One of each kind of content.
const KINDS = [
  { type: 'text', text: 'text' },
  { type: 'image', mimeType: 'image/png', data: btoa('image') },
  { type: 'audio', mimeType: 'audio/wav', data: btoa('audio') },
  { type: 'resource', resource: { uri: GREETING, mimeType: 'text/plain', text: 'hello' } },
  { type: 'resource_link', uri: GREETING, name: 'greeting' },
];

const userSays = (said) => [{ role: 'user', content: { type: 'text', text: said } }];

export const questions = {
  elicit: {
    method: 'elicitation/create',
    params: { mode: 'form', message: 'What is your name?', requestedSchema: takes({ name: string }) },
  },
  roots: { method: 'roots/list' },
  sample: {
    method: 'sampling/createMessage',
    params: { maxTokens: 100, messages: userSays('Name a number.') },
  },
  use: {
    method: 'sampling/createMessage',
    params: {
      maxTokens: 100,
      messages: userSays('Where is north?'),
      tools: [{ name: 'compass', inputSchema: takes({}) }],
    },
  },
  visit: {
    method: 'elicitation/create',
    params: { mode: 'url', message: 'Sign here.', url: 'https://example.com/sign', elicitationId: 'sign-here' },
  },
};

// The tools that ask, and their questions: each question by itself, and all at once.
export const asks = {
  elicit: ['elicit'],
  roots: ['roots'],
  sample: ['sample'],
  several: ['elicit', 'roots', 'sample'],
  use: ['use'],
  visit: ['visit'],
};

export const text = (said) => ({ content: [{ type: 'text', text: said }] });

// describe returns the answers as text, which a client can compare with its own.
export const describe = (kinds, answers) => text(kinds.map((kind) => describeOne(kind, answers[kind])).join('\n'));

function describeOne(kind, answer) {
  if (kind === 'elicit' || kind === 'visit') return `${answer.action}: ${answer.content?.name}`;
  if (kind === 'roots') return `first root: ${answer.roots[0]?.uri}`;
  const [said] = [answer.content].flat();
  return said.type === 'tool_use' ? `use: ${said.name}` : said.text;
}

// Watch records, for each call of the tool block, that it started and that its
// cancellation arrived.
class Watch {
  #marks = new Map();

  #mark(key, state) {
    const name = `${key}/${state}`;
    if (!this.#marks.has(name)) this.#marks.set(name, Promise.withResolvers());
    return this.#marks.get(name);
  }

  async block(key, signal) {
    this.#mark(key, 'started').resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    this.#mark(key, 'cancelled').resolve();
    return text('cancelled');
  }

  async witness(key, state) {
    const limit = delay(WITNESS_MS, 'late', { ref: false });
    if ((await Promise.race([this.#mark(key, state).promise, limit])) === 'late') throw new Error(`${key} was not ${state}`);
    return text(`${key} ${state}`);
  }
}

// House is shared by all sessions of a server: its tools, and the listeners for
// changes of them. The parts of a call that differ between the SDKs are passed in:
// signal, header, log, progress, ask, which returns the result of the call, keep, which
// does so with a state, and brew, which returns a task.
export class House {
  #names = Object.keys(INPUTS);
  #watch = new Watch();
  #board;
  // makes the error of the SDK for a resource that is not there
  #notFound;
  // onChange and onUpdate are functions that notify one session, or all listeners.
  onChange = new Set();
  onUpdate = new Set();

  // Without are the tools that the SDK cannot offer.
  constructor(board, notFound, without = []) {
    this.#board = board;
    this.#notFound = notFound;
    this.#names = this.#names.filter((name) => !without.includes(name));
  }

  listTools(cursor) {
    const start = Number(cursor ?? 0);
    const end = start + PAGE_SIZE;
    const tools = this.#names.slice(start, end).map((name) => describeTool(name));
    return end < this.#names.length ? { tools, nextCursor: String(end) } : { tools };
  }

  async call(name, args, request) {
    switch (name) {
      case 'block':
        return this.#watch.block(args.key, request.signal);
      case 'witness':
        return this.#watch.witness(args.key, args.state);
      case 'change':
        return this.#change(args.name, args.remove);
      case 'touch':
        await Promise.allSettled([...this.onUpdate].map((tell) => tell(args.uri)));
        return text('touched');
      case 'log':
        await request.log(args.text);
        return text('logged');
      case 'steps':
        return steps(args.steps, request);
      case 'header':
        return text(`header: ${request.header('mcp-param-region')}`);
      case 'keep':
        return request.keep(args.key);
      case 'brew':
        return request.brew(args.text);
      case 'kinds':
        return { content: KINDS };
      case 'measure':
        // The text differs from the structured content, so that neither is mistaken for the other.
        return { ...text('measured'), structuredContent: { depth: 'nine fathoms' } };
    }
    return asks[name] ? request.ask(asks[name]) : text(`echo: ${args.text}`);
  }

  async #change(name, remove) {
    this.#names = remove ? this.#names.filter((known) => known !== name) : [...this.#names, name];
    await Promise.allSettled([...this.onChange].map((tell) => tell()));
    return text(remove ? 'removed' : 'added');
  }

  listResources() {
    return { resources: [{ uri: 'interop://greeting', name: 'greeting', mimeType: 'text/plain' }] };
  }

  listTemplates() {
    return {
      resourceTemplates: [
        { uriTemplate: 'interop://item/{id}', name: 'item' },
        { uriTemplate: `interop://${this.#board}/{id}`, name: this.#board },
      ],
    };
  }

  // read puts the requested part of the URI into the text. One resource never exists.
  read(uri) {
    const [kind, item] = uri.slice('interop://'.length).split('/');
    if (item === 'missing') throw this.#notFound(uri);
    return { contents: [{ uri, mimeType: 'text/plain', text: item ? `${kind} ${item}` : 'hello' }] };
  }

  listPrompts() {
    return { prompts: [{ name: 'welcome', arguments: [{ name: 'language', required: true }] }] };
  }

  getPrompt({ language }) {
    return { messages: [{ role: 'user', content: { type: 'text', text: `Welcome the reader in ${language}.` } }] };
  }

  complete(ref, { value }) {
    const values = (ref.type === 'ref/resource' ? ITEMS : LANGUAGES).filter((known) => known.startsWith(value));
    return { completion: { values, total: values.length } };
  }
}

const describeTool = (name) => ({
  name,
  inputSchema: INPUTS[name] ?? INPUTS.echo,
  outputSchema: OUTPUTS[name],
  execution: name === 'brew' ? { taskSupport: 'optional' } : undefined,
});

// steps reports progress. A call without a token is an error, which reveals a lost
// token.
async function steps(count, { progress, progressToken }) {
  if (progressToken === undefined) throw new Error('the call has no progress token');
  for (let step = 1; step <= count; step++) {
    await progress({ progressToken, progress: step, total: count });
    await delay(STEP_PAUSE_MS);
  }
  return text(`${count} steps`);
}

export const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true },
  prompts: {},
  completions: {},
  logging: {},
};

// serve listens on a free port of loopback, prints it, and ends when its standard
// input does, so that it cannot outlive the test that started it.
export function serve(handle) {
  const server = createServer((req, res) => {
    handle(req, res).catch((error) => {
      console.error(error);
      if (!res.headersSent) res.writeHead(500).end();
    });
  });
  server.listen(0, '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${server.address().port}/mcp`));
  process.stdin.on('end', () => process.exit(0)).resume();
}
