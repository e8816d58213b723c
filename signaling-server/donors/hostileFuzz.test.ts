/**
 * Words that the schema allows and frames that are none, by the ten thousand, from strangers beside honest donors: nothing
 * throws, no commit is lost, and the memory of the process stays as it is. SHOAL_LONG takes a million words.
 */
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { below, peerId, type Random, seededRandom } from '../../swarm/base.ts';
import { probeFrames } from '../../swarm/messages/frame.ts';
import { encodeEnvelope } from '../../swarm/messages/relay.ts';
import { pick } from '../../swarm/testing/chaosWords.ts';
import { hostileWord } from '../../swarm/testing/hostileWords.ts';
import { counted } from '../testing/counted.ts';
import { FourStages } from '../testing/fourStages.ts';
import type { ScriptedDonor } from '../testing/scriptedDonor.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';
const SEED = 20_261_122;
const WORDS = IS_LONG ? 1_000_000 : 2_000;
const FRAMES = IS_LONG ? 100_000 : 2_000;
/** Strangers at once; each says so much, unless it is refused before. */
const CROWD = 8;
const WORDS_EACH = 200;
/** From its first quarter on what lives in the process may grow by so much: its commits are kept, too. */
const GROWTH_BYTES = 64e6;

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** After a collection: garbage that waits says nothing. */
function livingBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const stages = new FourStages();
beforeAll(() => stages.begin());
afterAll(() => stages.close());

/** What the server understood of strangers since this was asked for. */
function countHeard(): () => number {
  const { reception } = stages.server.run;
  const honest = new Set(stages.members.map(({ welcome }) => welcome.peer));
  const onMessage = reception.onMessage.bind(reception);
  let heard = 0;
  reception.onMessage = (peer, message) => {
    if (!honest.has(peer)) heard += 1;
    return onMessage(peer, message);
  };
  return () => heard;
}

/** Each ends a stranger's visit, wherever it stands: most are kept for its last words. */
const FINAL = /^{"type":"(hello|measured|leave|ready|warmed|report|evaluated|uploaded|fault)"/;

function nextWord(random: Random): string {
  for (;;) {
    const word = hostileWord(random, known());
    if (!FINAL.test(word) || random() < 0.02) return word;
  }
}

const known = () => {
  const { epoch, committedSteps } = stages.server.run;
  return { peers: stages.members.map(({ welcome }): string => welcome.peer), epoch, step: committedSteps };
};

/** One stranger's visit: it comes as far as it likes, and says what it likes. */
async function visit(random: Random, say: (stranger: ScriptedDonor) => void): Promise<void> {
  const stranger =
    random() < 0.1 ? await stages.connected() : random() < 0.3 ? await stages.greeted() : await stages.spare();
  for (let said = 0; said < WORDS_EACH; said++) say(stranger);
  await stranger.settled();
  stranger.vanish();
  await stranger.closed;
}

/** Several visitors at once until that is enough; the memory after each quarter. */
async function besiege(isEnough: (quarter: number) => boolean, say: (stranger: ScriptedDonor, random: Random) => void) {
  const living: number[] = [];
  let seed = SEED;
  for (const quarter of [1, 2, 3, 4]) {
    const visitor = async (): Promise<void> => {
      while (!isEnough(quarter)) {
        const random = seededRandom(seed++);
        await visit(random, (stranger) => say(stranger, random));
        for (const { received, relayed } of stages.members) received.length = relayed.length = 0;
      }
    };
    await Promise.all(Array.from({ length: CROWD }, visitor));
    living.push(livingBytes());
  }
  return living;
}

/** Every step stands committed once, as if nobody had come. */
async function expectUnharmed(before: number, living: readonly number[]): Promise<void> {
  const { run } = stages.server;
  await run.until(({ committedSteps }) => committedSteps > before + 20);
  const { store } = await stages.servers.data();
  const steps = store.steps(run.name).map(({ step }) => step);
  expect(steps).toEqual(steps.map((_, at) => at));
  const { generation } = run.snapshot();
  expect(generation).toBe(0);
  expect(await counted(stages.server, 'shoal_failures_total')).toBe(0);
  const [first = 0] = living;
  for (const bytes of living) expect(bytes - first).toBeLessThan(GROWTH_BYTES);
}

const LIMIT = { timeout: IS_LONG ? 3_600_000 : 300_000 };

test(`${WORDS.toLocaleString('en')} words that the schema allows`, LIMIT, async () => {
  const heard = countHeard();
  const [beganMs, before] = [performance.now(), stages.server.run.committedSteps];
  const living = await besiege(
    (quarter) => heard() >= (quarter * WORDS) / 4,
    (stranger, random) => stranger.sayRaw(nextWord(random)),
  );
  if (IS_LONG) report(heard(), beganMs, before, living);
  await expectUnharmed(before, living);
});

test(`${FRAMES.toLocaleString('en')} frames and envelopes that are none`, LIMIT, async () => {
  const [beganMs, before] = [performance.now(), stages.server.run.committedSteps];
  let sent = 0;
  const living = await besiege(
    (quarter) => sent >= (quarter * FRAMES) / 4,
    (stranger, random) => {
      sent += 1;
      stranger.sayRaw(damagedEnvelope(random));
    },
  );
  if (IS_LONG) report(sent, beganMs, before, living);
  await expectUnharmed(before, living);
});

/** A frame for a donor of the plan or nobody, with some bytes of it others, and cut anywhere. */
function damagedEnvelope(random: Random): Uint8Array<ArrayBuffer> {
  const to = random() < 0.2 ? peerId('nobody') : peerId(pick(random, known().peers));
  const frame = new Uint8Array(probeFrames(known().epoch)[0] ?? new ArrayBuffer(0)).subarray(0, 32 + below(random, 64));
  const envelope = encodeEnvelope(pick(random, ['frame', 'frame', 'ping', 'pong', 'credit'] as const), to, frame);
  for (let changes = below(random, 4); changes > 0; changes--)
    envelope[below(random, envelope.length)] = below(random, 256);
  return random() < 0.2 ? envelope.slice(0, below(random, envelope.length)) : envelope;
}

function report(words: number, beganMs: number, before: number, living: readonly number[]): void {
  const seconds = (performance.now() - beganMs) / 1_000;
  const commits = stages.server.run.committedSteps - before;
  const megabytes = living.map((bytes) => (bytes / 1e6).toFixed(0)).join(', ');
  console.log(
    `${words} in ${seconds.toFixed(0)} s, ${(words / seconds).toFixed(0)} a second; ${commits} commits; ${megabytes} MB after each quarter`,
  );
}
