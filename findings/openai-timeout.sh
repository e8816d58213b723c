#!/usr/bin/env bash
# What:     the option `timeout` of openai 6.49.0 (npm). 2026-11-29.
# Guessed:  it bounds the request, or at least the silence within a stream.
# Seen:     it ends with the response's headers: a body, streamed or not, may stall as long as it likes.
# Matters:  servers that stream send the headers before the first token, so a stage that hangs is never noticed.
# Instead:  an AbortController of one's own, aborted by a timer that each chunk restarts; the loop then ends without an error,
#           so look at signal.aborted after it.
source "$(dirname "$0")/common.sh"
enter openai@6.49.0
cat > run.mjs <<'JS'
import { createServer } from 'node:http';
import OpenAI from 'openai';
import { end, say } from './say.mjs';

// The headers go at once, the rest of the body 1.5 s later: five times the timeout.
const server = createServer((request, response) => {
  let asked = '';
  request.on('data', (part) => { asked += part; });
  request.on('end', () => {
    const stream = JSON.parse(asked).stream === true;
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
    response.write(stream ? 'data: {"choices":[]}\n\n' : '{"choices":');
    setTimeout(() => response.end(stream ? 'data: [DONE]\n\n' : '[]}'), 1500);
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const baseURL = `http://127.0.0.1:${server.address().port}/v1`;
const client = new OpenAI({ apiKey: 'none', baseURL, timeout: 300, maxRetries: 0, logLevel: 'off' });
const outcome = (call) => call.then(() => 'an answer', (error) => error.constructor.name);
const whole = client.chat.completions.create({ model: 'm', messages: [] });
say('an answer whose body stalls', 'APIConnectionTimeoutError', 'an answer', await outcome(whole));
async function streamed() {
  for await (const _ of await client.chat.completions.create({ model: 'm', messages: [], stream: true }));
}
say('a stream that stalls', 'APIConnectionTimeoutError', 'an answer', await outcome(streamed()));
end();
JS
node run.mjs
