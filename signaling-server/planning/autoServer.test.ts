/** `--schedule auto` in a whole server: donors that say what they measured, plans that follow. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Profile } from '../../swarm/messages/profile.ts';
import { peers } from '../../swarm/plan/plan.ts';
import { clusterOf } from '../operator/plan.ts';
import { operatorSource } from '../operator/source.ts';
import type { Server } from '../server.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

/** A layer takes `seconds` for a sample. */
const profile = (seconds: number): Profile => ({
  layers: [{ samples: 1, forwardSeconds: seconds, backwardSeconds: 2 * seconds }],
  memoryBytes: 1e9,
  checkedKernels: 0,
});

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ name: 'auto', layers: 4, samples: 8, steps: 100_000, checkpointEverySteps: 20 });
});
afterEach(() => servers.close());

async function serve(): Promise<{ readonly server: Server; readonly data: DataDirectory }> {
  return { server: await servers.serve({ auto: true }), data: await servers.data() };
}

test('[CO70] a newcomer that makes a step shorter is taken in without a roll-back, with reasons; a slow one is spare', async () => {
  const { server, data } = await serve();
  // 8 samples through 4 layers, forward and backward: their spans say what their profiles do.
  const first = new ScriptedDonor(server.url, { profile: profile(0.005), stepMs: 480 });
  await first.hears('start');
  const second = new ScriptedDonor(server.url, { profile: profile(0.002), stepMs: 190 });
  const { plan, epoch, source } = await second.hears('prepare');
  expect(source.from).toBe('peers');
  expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer))).toContain(second.welcome.peer);
  await second.hears('committed', (message) => message.epoch === epoch);
  const slow = new ScriptedDonor(server.url, { profile: profile(40) });
  await slow.hears('standby', ({ state }) => state === 'spare');
  const { snapshot } = operatorSource(server.run, data.store, server.rehearsals)();
  expect(snapshot).toMatchObject({
    generation: 0,
    planning: { predictedSeconds: expect.any(Number), verdict: expect.any(String) },
  });
  expect(data.store.epoch('auto', server.run.epoch)?.plan).not.toContain(slow.welcome.peer);
  const planned = data.store.events('auto', 'planned', 0).map((detail) => JSON.parse(detail));
  const own = planned.find((one) => one.epoch === epoch);
  expect(own).toMatchObject({ predictedSeconds: expect.any(Number) });
  expect(own.reasons).toContainEqual({ peer: second.welcome.peer, text: expect.stringContaining('stage') });
  expect(data.store.epoch('auto', epoch)?.reason).toMatch(/joins.*: with another plan a step takes/);
});

test('[WP18] two donors that tell of no link between them are asked for it at the same moment; who was not asked is not heard', async () => {
  const { server } = await serve();
  const first = new ScriptedDonor(server.url, { profile: profile(0.05) });
  await first.hears('committed');
  const second = new ScriptedDonor(server.url, { profile: profile(40) });
  const asked = await second.hears('probe');
  expect(asked.peer).toBe(first.welcome.peer);
  expect(await first.hears('probe')).toEqual({ ...asked, peer: second.welcome.peer });
  const link = { roundTripMs: 0.1, bytesPerSecond: 1e12 };
  second.say({ type: 'probed', peer: second.welcome.peer, ...link });
  second.say({ type: 'probed', peer: asked.peer, ...link });
  first.say({ type: 'probed', peer: second.welcome.peer, ...link });
  await server.run.until((run) => /measured the link/.test(run.planning?.verdict ?? ''));
  expect(server.run.donors()).toHaveLength(2);
  expect(clusterOf(server.run).links.pairs).toEqual([
    { between: [asked.peer, second.welcome.peer], latencySeconds: 0.00005, bytesPerSecond: 1e12 },
  ]);
});

test('after a restart who did the work does it again, though an equal donor that was spare is back first', async () => {
  const { server } = await serve();
  const quick = profile(0.00001);
  const worker = new ScriptedDonor(server.url, { profile: quick, stepMs: 5 });
  await worker.hears('committed', ({ step }) => step >= 40);
  const spare = new ScriptedDonor(server.url, { profile: quick });
  await spare.hears('standby', ({ state }) => state === 'spare');
  server.run.shutDown();
  await server.run.until(({ phase }) => phase === 'stopped');
  const resumeOf = ({ welcome: { peer, resumeKey } }: ScriptedDonor) => ({ peer, key: resumeKey });
  await server.close();

  const { server: next } = await serve();
  const first = new ScriptedDonor(next.url, { profile: quick, resume: resumeOf(spare) });
  await next.run.until((run) => run.donors().length === 1);
  expect(next.run.donors().map(({ wasHere }) => wasHere)).toEqual([true]); // so the other has longer to come back
  const second = new ScriptedDonor(next.url, { profile: quick, stepMs: 5, resume: resumeOf(worker) });
  const { plan } = await second.hears('prepare');
  expect(second.welcome.peer).toBe(worker.welcome.peer);
  expect(peers(plan)).toEqual([worker.welcome.peer]);
  await second.hears('committed');
  expect(first.received.some(({ type }) => type === 'prepare')).toBe(false);
});

test('what a donor measured is found again by its key', async () => {
  const { server, data } = await serve();
  const key = 'a-key-that-a-browser-keeps';
  const donor = new ScriptedDonor(server.url, { profile: profile(0.02), key });
  await donor.hears('committed');
  expect(server.run.donors()[0]?.donor).toMatch(/^[0-9a-f]{64}$/);
  expect(data.store.profile('auto', server.run.donors()[0]?.donor ?? '')).toBeNull(); // it told of no spans
});

test('a search that fails is a refusal: a plan is made without it', async () => {
  const server = await servers.serve({ auto: true, search: () => Promise.reject(new Error('a search that fails')) });
  const donor = new ScriptedDonor(server.url, { profile: profile(0.02) });
  await donor.hears('committed');
});
