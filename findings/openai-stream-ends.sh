#!/usr/bin/env bash
# What:     openai 6.49.0 (npm), chat.completions.create({ stream: true }), where the server fails in the middle. 2026-11-29.
# Guessed:  a stream without finish_reason and [DONE] throws, and so does an `event: error` frame.
# Seen:     a stream that just ends is a loop that ends well; `event: error` with {"message": …} is handed on as one more
#           chunk without choices. Of JSON data only an object with a field named `error` throws.
# Matters:  a generation cut off when a peer left looks like a short answer.
# Instead:  server: data: {"error": {…}}. Client: the answer counts only if a finish_reason came.
source "$(dirname "$0")/common.sh"
enter openai@6.49.0
cat > run.mjs <<'JS'
import OpenAI from 'openai';
import { end, say } from './say.mjs';

const chunk = (content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
async function read(body) {
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  const client = new OpenAI({ apiKey: 'none', baseURL: 'http://127.0.0.1/v1', logLevel: 'off', fetch });
  const seen = [];
  try {
    for await (const part of await client.chat.completions.create({ model: 'm', messages: [], stream: true }))
      seen.push(part.choices?.[0]?.delta.content ?? JSON.stringify(part));
    seen.push('ended');
  } catch (error) {
    seen.push(`threw ${error.constructor.name}`);
  }
  return seen.join(' ');
}
say('two chunks, then the end of the body', 'a b threw APIError', 'a b ended', await read(chunk('a') + chunk('b')));
const event = 'event: error\ndata: {"message":"a peer left"}\n\n';
say('a chunk, then event: error', 'a threw APIError', 'a {"message":"a peer left"} ended', await read(chunk('a') + event));
const named = 'data: {"error":{"message":"a peer left"}}\n\n';
say('a chunk, then data with "error"', 'a threw APIError', 'a threw APIError', await read(chunk('a') + named));
end();
JS
node run.mjs
