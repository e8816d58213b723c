#!/usr/bin/env bash
# What:     messages of one data channel between two simple-peer 9.11.1 (npm), over @roamhq/wrtc 0.9.1. 2026-12-01.
# Guessed:  a channel has messages, so each that is sent is one chunk: an empty one too, and for whoever reads with `for await`;
#           one that is larger than the other end takes throws or is an `error` event.
# Seen:     an empty message never arrives. Where the reader is busy for a moment, `for await` gives all that came meanwhile as
#           one chunk. One byte more than the SDP's max-message-size (262,144) ends both peers with `close` alone: send() does
#           not throw, and nobody has an `error`.
# Matters:  frames cut by messages come out glued together under load and nowhere else; an empty frame as a sign of life is
#           lost; one that grew past the limit looks like a donor who left.
# Instead:  `objectMode: true` keeps messages apart (the empty one too); cut frames below the limit yourself.
source "$(dirname "$0")/common.sh"
enter simple-peer@9.11.1 @roamhq/wrtc@0.9.1
cat > run.mjs <<'JS'
import { once } from 'node:events';
import wrtc from '@roamhq/wrtc';
import SimplePeer from 'simple-peer';
import { end, say } from './say.mjs';

const settled = () => new Promise((resolve) => setTimeout(resolve, 1_000));

/** Two ends that are connected, and what each is told of its end. */
async function pair(options = {}) {
  const [one, other] = [true, false].map((initiator) => new SimplePeer({ initiator, wrtc, ...options }));
  const events = [];
  one.on('signal', (data) => other.signal(data));
  other.on('signal', (data) => one.signal(data));
  for (const [name, peer] of Object.entries({ one, other }))
    for (const event of ['error', 'close']) peer.on(event, () => events.push(`${name} ${event}`));
  await Promise.all([once(one, 'connect'), once(other, 'connect')]);
  return { one, other, events };
}

/** Sizes of what a reader gets who is busy for as long as all of it arrives. */
async function read({ one, other }, sizes) {
  const got = [];
  const reading = (async () => {
    for await (const chunk of other) {
      got.push(chunk.length);
      await settled();
    }
  })().catch(() => {});
  for (const size of sizes) one.send(Buffer.alloc(size, 1));
  await settled();
  await settled();
  await settled();
  one.destroy();
  await reading;
  return got;
}

const sizes = [10, 20, 0, 30];
say('sizes that come of 10, 20, 0 and 30', sizes, [10, 50], await read(await pair(), sizes));
say('the same with objectMode', sizes, sizes, await read(await pair({ objectMode: true }), sizes));

const { one, other, events } = await pair();
const got = [];
other.on('data', (chunk) => got.push(chunk.length));
let thrown = false;
for (const size of [262_144, 262_145]) {
  try {
    one.send(Buffer.alloc(size));
  } catch {
    thrown = true;
  }
  await settled();
}
say('sizes that come of 262,144 and 262,145', [262_144], [262_144], got);
say('the larger one throws', true, false, thrown);
say('what both ends are told', ['one error'], ['one close', 'other close'], events.toSorted());
end();
JS
node run.mjs
