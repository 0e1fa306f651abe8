// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// What the servers made with the TypeScript SDKs offer, as far as it is the same
// for both: the words of goserver. A server gives its SDK's way to notify, to ask
// and to be told; the results are plain data that both SDKs understand.

import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

// Less than the number of tools: whoever lists them must follow a cursor.
const PAGE_SIZE = 4;
// How long the tool witness waits for what it is asked about.
const WITNESS_MS = 5_000;
// Parts the notices of progress from each other and from the result.
const STEP_PAUSE_MS = 50;

const LANGUAGES = ['norsk', 'nynorsk', 'suomi'];
const ITEMS = ['41', '42'];

const string = { type: 'string' };
const takes = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });

const INPUTS = {
  block: takes({ key: string }),
  change: takes({ name: string, remove: { type: 'boolean' } }, ['name']),
  echo: takes({ text: string }),
  elicit: takes({}),
  log: takes({ text: string }),
  roots: takes({}),
  sample: takes({}),
  several: takes({}),
  steps: takes({ steps: { type: 'integer' } }),
  touch: takes({ uri: string }),
  witness: takes({ key: string, state: string }),
};

export const questions = {
  elicit: {
    method: 'elicitation/create',
    params: { mode: 'form', message: 'What is your name?', requestedSchema: takes({ name: string }) },
  },
  roots: { method: 'roots/list' },
  sample: {
    method: 'sampling/createMessage',
    params: { maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text: 'Name a number.' } }] },
  },
};

// The tools that ask, and what: each question by itself, and all at once.
export const asks = { elicit: ['elicit'], roots: ['roots'], sample: ['sample'], several: ['elicit', 'roots', 'sample'] };

export const text = (said) => ({ content: [{ type: 'text', text: said }] });

// describe returns the answers as text, which a client can compare with what it
// said.
export const describe = (kinds, answers) => text(kinds.map((kind) => describeOne(kind, answers[kind])).join('\n'));

function describeOne(kind, answer) {
  if (kind === 'elicit') return `${answer.action}: ${answer.content?.name}`;
  if (kind === 'roots') return `first root: ${answer.roots[0]?.uri}`;
  return answer.content.text;
}

// Watch remembers of each call of the tool block that it started, and that its
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

// House is what all sessions of a server share: its tools, and who wants to hear
// that they change. Of a call it is given what differs between the SDKs: signal,
// log, progress, and ask, which returns the result of the call.
export class House {
  #names = Object.keys(INPUTS);
  #watch = new Watch();
  #board;
  // onChange and onUpdate are functions that tell one session, or all listeners.
  onChange = new Set();
  onUpdate = new Set();

  constructor(board) {
    this.#board = board;
  }

  listTools(cursor) {
    const start = Number(cursor ?? 0);
    const end = start + PAGE_SIZE;
    const tools = this.#names.slice(start, end).map((name) => ({ name, inputSchema: INPUTS[name] ?? INPUTS.echo }));
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

  // read puts what the URI asks for into the text.
  read(uri) {
    const [kind, item] = uri.slice('interop://'.length).split('/');
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

// steps reports progress. A call without a token is an error, which is how a lost
// token shows.
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

// serve listens on a free port of loopback, says which, and ends when its standard
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
