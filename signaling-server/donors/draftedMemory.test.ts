/** What a welcome says of memory, and what a draft is judged by. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { INITIAL_DRAFT } from '../../swarm/run/runDraft.ts';
import { dryRun } from '../operator/plan.ts';
import { donorHash } from '../store/profileStore.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE, ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const MIB = 2 ** 20;
const KEY = 'a-key-of-a-browser';
/** GPT-2 small with a vocabulary of bytes and 32 positions: 12 layers of 12·768² + 13·768, the tables, the last norm. */
const GPT2_SMALL = 12 * (12 * 768 ** 2 + 13 * 768) + (256 + 32) * 768 + 2 * 768;
/** Value, gradient and two moments, in float32. */
const LEAST_BYTES = 16;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 1_000 });
});
afterEach(() => servers.close());

test('a donor hears what the largest draft of the form would need of it, and what it found before', async () => {
  const server = await servers.serve();
  const stranger = await ScriptedDonor.joined(server.url);
  expect(stranger.welcome.memory.known).toBeNull();
  expect(stranger.welcome.memory.draftedBytes).toBeGreaterThan(LEAST_BYTES * GPT2_SMALL);
  expect(stranger.welcome.memory.draftedBytes).toBeLessThan(2 * LEAST_BYTES * GPT2_SMALL);
  const { store } = await servers.data();
  const found = { memoryBytes: 700 * MIB, memoryTriedBytes: 2_048 * MIB };
  store.saveProfile('tiny', donorHash(KEY, SCRIPTED_ADAPTER), { layers: [], ratios: [], ...found }, 0);
  const returned = await ScriptedDonor.joined(server.url, { key: KEY });
  expect(returned.welcome.memory).toEqual({ ...stranger.welcome.memory, known: found });
});

test.each([
  [19 * MIB, false],
  [1_024 * MIB, true],
])('a drafted GPT-2 small on two donors with %i bytes each: carried is %s', async (memoryBytes, isCarried) => {
  const server = await servers.serve();
  const layers = [{ samples: 1, forwardSeconds: 0.01, backwardSeconds: 0.02 }];
  const profile = { ...SCRIPTED_PROFILE, layers, memoryBytes };
  for (let at = 0; at < 2; at++) await (await ScriptedDonor.joined(server.url, { profile })).hears('committed');
  const draft = { ...INITIAL_DRAFT, name: 'large', source: 'tiny', model: 'gpt2-small' } as const;
  const known = { run: server.run, data: await servers.data(), models: null };
  const answer = await dryRun(known, { draft, cluster: null, whatIf: null });
  expect(answer.ok, answer.ok ? '' : answer.reason).toBe(isCarried);
  if (!answer.ok) expect(answer.reason).toMatch(/GiB/);
});
