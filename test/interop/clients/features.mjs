// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The tests of a client, in a form that both TypeScript SDKs can run. A driver (ts1.mjs, ts2.mjs) gives main a function that connects
// and returns a session; main reads a JSON array of jobs from standard input
// and prints one JSON line per server and feature.

import { text as readAll } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

// The time limit of a feature, and a shorter one for features that are known not to
// work.
export const LIMIT_MS = 120_000;
const BRIEF_MS = 5_000;
// The interval of retries with a server that does not report when it is ready.
const POLL_MS = 100;
// How many sessions there are at once.
const SESSIONS = 4;
const PROGRESS_ATTEMPTS = 5;
const HEADER_ATTEMPTS = 5;

// Inbox keeps unsolicited messages of a server until a feature reads them.
export class Inbox {
  #logs = [];
  #changes = { tools: 0, resources: 0, prompts: 0 };
  #updated = new Set();
  #waiting = new Set();

  log(params) {
    this.#logs.push(params);
    this.#wake();
  }

  changed(kind) {
    this.#changes[kind]++;
    this.#wake();
  }

  updated({ uri }) {
    this.#updated.add(uri);
    this.#wake();
  }

  hasUpdate(uri) {
    return this.#updated.has(uri);
  }

  changes(kind) {
    return this.#changes[kind];
  }

  hasLog(want) {
    return this.#logs.some((params) => JSON.stringify(params.data).includes(want));
  }

  // until resolves when isTrue does; a limit on the whole feature ends it.
  async until(isTrue) {
    while (!isTrue()) {
      await new Promise((resolve) => this.#waiting.add(resolve));
    }
  }

  #wake() {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

const features = {
  tools: async ({ session, want }) => includesAll(await session.tools(), want),
  resources: async ({ session, want }) => includesAll(await session.resources(), want),
  templates: async ({ session, want }) => includesAll(await session.templates(), want),
  prompts: async ({ session, want }) => includesAll(await session.prompts(), want),
  call: callAndCompare,
  progress,
  cancel,
  log,
  complete: async ({ session, want }) => {
    for (const { ref, argument, value } of want) {
      const { completion } = await session.complete({ ref, argument });
      includesAll(completion.values, [value]);
    }
  },
  read: async ({ session, want }) => {
    for (const { uri, text } of want) {
      const { contents } = await session.read({ uri });
      contains(contents.map((c) => c.text).join('\n'), text);
    }
  },
  get: async ({ session, want }) => {
    const { messages } = await session.get({ name: want.name, arguments: want.arguments });
    contains(messages.map((m) => m.content.text).join('\n'), want.want);
  },
  elicit: callAndCompare,
  sample: callAndCompare,
  roots: callAndCompare,
  several: callAndCompare,
  url: callAndCompare,
  use: callAndCompare,
  state: callAndCompare,
  header,
  kinds: async ({ session, want, signal }) => {
    const { content } = await callTool(session, want, { signal });
    contains(content.map((c) => c.type).join(' '), want.want);
  },
  structured: async ({ session, want, signal }) => {
    const { structuredContent } = await callTool(session, want, { signal });
    contains(JSON.stringify(structuredContent ?? null), want.want);
  },
  errors: async ({ session, want }) => {
    const error = await session.read({ uri: want.uri }).then(
      () => Promise.reject(new Error(`read ${want.uri}, which is not there`)),
      (refused) => refused,
    );
    if (!want.codes.includes(error.code)) throw new Error(`got code ${error.code} of ${error.message}, want one of ${want.codes}`);
  },
  caps: async ({ session, want }) => includesAll(Object.keys(session.capabilities()), want),
  instruct: async ({ session, want }) => contains(session.instructions() ?? '', want),
  tasks: async ({ session, want, signal }) => {
    if (!session.task) throw new Error('the SDK has no tasks');
    const { content } = await session.task({ name: want.name, arguments: want.arguments }, { signal });
    contains(content.map((c) => c.text).join('\n'), want.want);
  },
  changes,
  updates,
};

async function callAndCompare({ session, want, signal }) {
  for (;;) {
    const got = await callText(session, want, { signal });
    if (got.includes(want.want)) return;
    if (!want.eventually || signal.aborted) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want.want)}`);
    await delay(POLL_MS);
  }
}

// progress expects the steps in order, but the last ones may be missing, and it
// retries if all are: these clients dispatch a notification one tick after
// reading it, and drop its token as soon as they read the result, so on a busy
// machine steps that arrive together with the result are dropped. So are those of a
// request that is parked because the server has asked something.
async function progress({ session, want, signal }) {
  for (let attempt = 1; ; attempt++) {
    const seen = [];
    // Before it sends the input, the newer SDK reports a step of its own.
    const onprogress = (p) => p.total && seen.push(p.progress);
    contains(await callText(session, want, { signal, onprogress }), want.want);
    if (seen.some((step, i) => step <= (seen[i - 1] ?? 0))) throw new Error(`got progress ${seen}`);
    if (seen.length > 0 && seen.at(-1) === seen.length) return;
    if (attempt === PROGRESS_ATTEMPTS) throw new Error(`got progress ${seen}`);
  }
}

// cancel succeeds if the server reports that the cancellation arrived.
async function cancel({ session, want }) {
  const abort = new AbortController();
  const blocked = callText(session, want.block, { signal: abort.signal }).then(
    (got) => Promise.reject(new Error(`cancelled call returned ${got}`)),
    () => undefined,
  );
  contains(await callText(session, want.started), want.started.want);
  abort.abort('enough');
  await blocked;
  contains(await callText(session, want.cancelled), want.cancelled.want);
}

// header lists the tools first: a client does not know the headers of a tool that it
// has not listed, or whose list has changed since. Others change the list at the same
// time.
async function header({ session, want, signal }) {
  for (let attempt = 1; ; attempt++) {
    await session.tools();
    const said = await callText(session, want, { signal }).catch((error) => String(error));
    if (said.includes(want.want)) return;
    if (attempt === HEADER_ATTEMPTS) throw new Error(`got ${said}, want ${want.want}`);
  }
}

async function log({ session, inbox, want, signal }) {
  await session.setLevel('debug');
  await callText(session, want, { signal });
  await inbox.until(() => inbox.hasLog(want.want) || signal.aborted);
  if (want.stop) await callText(session, want.stop, { signal });
}

// changes expects a notice for an addition and one for the removal, and the change
// in the list that is fetched after a notice. Other clients of the same server cause
// notices too, hence the loop.
async function changes({ session, inbox, want, signal }) {
  await session.watch(want.kind);
  for (const [step, present] of [[want.add, true], [want.remove, false]]) {
    if (!step) continue;
    let seen = inbox.changes(want.kind);
    await callText(session, step, { signal });
    for (;;) {
      await inbox.until(() => inbox.changes(want.kind) > seen || signal.aborted);
      signal.throwIfAborted();
      seen = inbox.changes(want.kind);
      const list = await session[want.kind]();
      if (list.includes(want.item) === present) break;
    }
    if (present && want.use) contains(await callText(session, want.use, { signal }), want.use.want);
  }
}

// updates expects an update of the one resource that it has subscribed to.
async function updates({ session, inbox, want, signal }) {
  const unsubscribe = await session.subscribe(want.uri);
  contains(await callText(session, want.touch, { signal }), want.touch.want);
  await inbox.until(() => inbox.hasUpdate(want.uri) || signal.aborted);
  if (want.touch.stop) await callText(session, want.touch.stop, { signal });
  await unsubscribe();
}

const callTool = (session, { name, arguments: args }, options) => session.call({ name, arguments: args }, options);

async function callText(session, want, options) {
  const result = await callTool(session, want, options);
  const text = (result.content ?? []).map((c) => c.text ?? '').join('\n');
  if (result.isError) throw new Error(`tool error: ${text}`);
  return text;
}

function contains(got, want) {
  if (!got.includes(want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

function includesAll(got, wanted) {
  const missing = wanted.filter((want) => !got.includes(want));
  if (missing.length > 0) throw new Error(`${JSON.stringify(missing)} not in ${JSON.stringify(got)}`);
}

// within runs one feature with its limit and prints what came of it.
async function within(job, server, feature, limit, run) {
  const started = performance.now();
  const signal = AbortSignal.timeout(limit);
  const expired = new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`nothing after ${limit} ms`)));
  });
  const line = { job: job.id, server, feature, ok: true };
  try {
    await Promise.race([run(signal), expired]);
  } catch (error) {
    Object.assign(line, { ok: false, error: String(error?.message ?? error) });
  }
  line.ms = Math.round(performance.now() - started);
  console.log(JSON.stringify(line));
  return line.ok;
}

async function runJob(job, connect) {
  const inbox = new Inbox();
  let session;
  const connected = await within(job, '', 'connect', LIMIT_MS, async () => {
    session = await connect(job, inbox);
    if (session.version !== job.version) throw new Error(`negotiated ${session.version}, want ${job.version}`);
  });
  if (connected) {
    for (const server of job.servers) {
      for (const [feature, run] of Object.entries(features)) {
        const want = server[feature];
        const limit = server.brief?.includes(feature) ? BRIEF_MS : LIMIT_MS;
        if (want) await within(job, server.name, feature, limit, (signal) => run({ session, inbox, want, signal }));
      }
    }
  }
  if (connected) await within(job, '', 'close', LIMIT_MS, () => session.close());
  else await session?.close().catch(() => undefined);
}

// allPages follows cursors: the older SDK returns one page at a time.
export async function allPages(fetchPage, pick) {
  const found = [];
  let cursor;
  do {
    const page = await fetchPage(cursor ? { cursor } : {});
    found.push(...pick(page));
    cursor = page.nextCursor;
  } while (cursor);
  return found;
}

// standaloneOpened wraps fetch. Its promise settles when the server has
// answered the GET of a legacy session, because only then can the server send
// unrelated messages.
export function standaloneOpened() {
  let settle;
  const opened = new Promise((resolve) => {
    settle = resolve;
  });
  const watchedFetch = async (url, init) => {
    const response = await fetch(url, init);
    if (init?.method === 'GET') settle();
    return response;
  };
  return { opened, fetch: watchedFetch };
}

const assistant = { model: 'none', role: 'assistant' };

// capabilities are what the clients declare.
export const capabilities = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };

// answers are the client's answers to questions of a server; the test expects them.
export const answers = (job) => ({
  elicit: ({ mode }) => ({ action: 'accept', content: mode === 'url' ? undefined : { name: job.answers.name } }),
  sample: ({ tools }) =>
    tools
      ? { ...assistant, stopReason: 'toolUse', content: { type: 'tool_use', id: 'use-1', name: tools[0].name, input: {} } }
      : { ...assistant, content: { type: 'text', text: job.answers.sample } },
  roots: { roots: [{ uri: job.answers.root, name: 'root' }] },
});

export async function main(connect) {
  const jobs = JSON.parse(await readAll(process.stdin));
  const left = jobs.values();
  const work = async () => {
    for (const job of left) await runJob(job, connect);
  };
  await Promise.all(Array.from({ length: SESSIONS }, work));
  // Sockets that a client keeps open must not keep the process alive.
  process.exit(0);
}
