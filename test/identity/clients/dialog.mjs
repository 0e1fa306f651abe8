// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// What the clients in TypeScript share: the job, the dialog with the test, and the
// memory of an OAuth client. See clients_test.go.

import { createInterface } from 'node:readline';

export const job = JSON.parse(process.argv[2]);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => console.log(JSON.stringify(message));

// person opens an address in the test's browser and returns the address at which the
// sign-in ended.
async function person(address) {
  say({ open: address });
  const { value, done } = await lines.next();
  if (done) throw new Error('nobody is there to sign in');
  return new URL(value);
}

// Memory is an OAuthClientProvider that forgets everything at the end of the process.
export class Memory {
  redirectUrl = job.redirect;
  clientMetadata = {
    client_name: 'identity test', redirect_uris: [job.redirect], application_type: 'native', token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  };
  #client = job.client ? { client_id: job.client } : undefined;
  #tokens;
  #verifier;
  #state;
  callback; // the parameters of the last sign-in

  state = () => (this.#state = crypto.randomUUID());
  clientInformation = () => this.#client;
  saveClientInformation(client) { this.#client = client; }
  tokens = () => this.#tokens;
  saveTokens(tokens) { this.#tokens = tokens; }
  saveCodeVerifier(verifier) { this.#verifier = verifier; }
  codeVerifier = () => this.#verifier;
  async redirectToAuthorization(address) {
    this.callback = (await person(address.href)).searchParams;
    if (this.callback.get('state') !== this.#state) throw new Error('the answer is of another sign-in');
  }
}

// run plays the job: connect, list the tools, and call those of the job. Each step is
// repeated after a sign-in.
export async function run(memory, unauthorized, { connect, finish, tools, call, close }) {
  const signedIn = async (step) => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await step();
      } catch (error) {
        if (!unauthorized(error) || !memory.callback || attempt === 2) throw error;
        const { callback } = memory;
        memory.callback = undefined;
        await finish(callback);
      }
    }
  };
  const report = { calls: [] };
  try {
    report.version = await signedIn(connect);
    report.tools = await signedIn(tools);
    for (const { name, arguments: args } of job.calls ?? []) {
      report.calls.push(await signedIn(() => call(name, args ?? {})));
    }
    await close();
  } catch (error) {
    report.error = String(error?.stack ?? error);
  }
  say({ report });
  process.exit(0);
}
