#!/usr/bin/env bash
# What:     openai 6.49.0 (npm) while it waits to try again. 2026-11-29.
# Guessed:  `timeout` bounds the call and an AbortSignal ends it at once, also between two tries; a Retry-After of an hour is
#           not obeyed in silence.
# Seen:     the client sleeps as long as Retry-After says, without a limit, and hears neither `timeout` nor the signal
#           meanwhile; the abort is noticed when the sleep is over.
# Matters:  one 429 of an overloaded peer or gateway makes a chat page stand for an hour, with a stop button that does nothing.
# Instead:  maxRetries: 0 and a retry of one's own; a server sends small numbers, or x-should-retry: false.
source "$(dirname "$0")/common.sh"
enter openai@6.49.0
cat > run.mjs <<'JS'
import { createServer } from 'node:http';
import OpenAI from 'openai';
import { end, say } from './say.mjs';

let asked = () => {};
const server = createServer((_, response) => {
  response.writeHead(429, { 'retry-after': '3600', 'content-type': 'application/json' });
  response.end('{"error":{"message":"busy"}}', () => asked());
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const baseURL = `http://127.0.0.1:${server.address().port}/v1`;
const client = new OpenAI({ apiKey: 'none', baseURL, logLevel: 'off' });
const question = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
const settled = (call) =>
  Promise.race([
    call.then(() => 'an answer', (error) => error.constructor.name),
    new Promise((done) => setTimeout(done, 3000, 'still waiting 3 s later')),
  ]);

const timed = client.chat.completions.create(question, { timeout: 200 });
say('timeout: 200 ms, answer 429 with Retry-After: 3600', 'RateLimitError', 'still waiting 3 s later', await settled(timed));

const first = new Promise((done) => { asked = done; });
const abort = new AbortController();
const aborted = client.chat.completions.create(question, { signal: abort.signal });
await first;
await new Promise((done) => setTimeout(done, 200)); // the 429 has arrived
abort.abort();
say('the signal aborted after that answer', 'APIUserAbortError', 'still waiting 3 s later', await settled(aborted));
end();
JS
node run.mjs
