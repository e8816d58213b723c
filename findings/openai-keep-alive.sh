#!/usr/bin/env bash
# What:     openai 6.49.0 (npm), event streams with keep-alives. 2026-11-29.
# Guessed:  an event without data is dropped, as the event stream format asks (an empty data buffer is never dispatched).
# Seen:     `event: ping` and a blank line throw SyntaxError and end the answer; a comment line (": ping") is dropped.
# Matters:  a slow swarm must send something while the first token is on its way, or proxies cut the connection.
# Instead:  keep alive by comments, never by an event without data.
source "$(dirname "$0")/common.sh"
enter openai@6.49.0
cat > run.mjs <<'JS'
import OpenAI from 'openai';
import { end, say } from './say.mjs';

const chunk = (content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
async function read(between) {
  const body = `${chunk('a')}${between}${chunk('b')}data: [DONE]\n\n`;
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  const client = new OpenAI({ apiKey: 'none', baseURL: 'http://127.0.0.1/v1', logLevel: 'off', fetch });
  const seen = [];
  try {
    for await (const part of await client.chat.completions.create({ model: 'm', messages: [], stream: true }))
      seen.push(part.choices[0].delta.content);
  } catch (error) {
    seen.push(`threw ${error.constructor.name}`);
  }
  return seen.join(' ');
}
say('a comment in between', 'a b', 'a b', await read(': ping\n\n'));
say('event: ping in between', 'a b', 'a threw SyntaxError', await read('event: ping\n\n'));
end();
JS
node run.mjs
