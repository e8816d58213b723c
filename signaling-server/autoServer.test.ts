/** `--schedule auto` in a whole server: donors that say what they measured, plans that follow. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Profile } from '../swarm/messages.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { operatorSource } from './operatorSource.ts';
import { ScriptedDonor } from './scriptedDonor.ts';
import { createServer, type Server } from './server.ts';

const RUN = {
  name: 'auto',
  model: { model_type: 'gpt2', n_layer: 4, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 256 },
  data: { files: ['corpus.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    steps: 100_000,
    globalBatchSize: 8,
    sequenceLength: 8,
    optimizer: { type: 'adamw', learningRate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
};

/** A layer takes `seconds` for a sample. */
const profile = (seconds: number): Profile => ({
  layers: [{ samples: 1, forwardSeconds: seconds, backwardSeconds: 2 * seconds }],
  memoryBytes: 1e9,
  checkedKernels: 0,
});

let directory: string;
const toClose: { close(): unknown }[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-auto-'));
  writeFileSync(join(directory, 'corpus.txt'), 'Call me Ishmael. Some years ago, never mind how long. '.repeat(9));
  writeFileSync(join(directory, 'run.json'), JSON.stringify(RUN));
});
afterEach(async () => {
  for (const thing of toClose.splice(0).reverse()) await thing.close();
  rmSync(directory, { recursive: true, force: true });
});

async function serve(): Promise<{ readonly server: Server; readonly data: DataDirectory }> {
  const data = await openDataDirectory(join(directory, 'data'));
  if (!data.ok) throw new Error(data.reason);
  toClose.push(data.value);
  const name = await addRun(data.value, join(directory, 'run.json'));
  if (!name.ok) throw new Error(name.reason);
  const server = await createServer({ data: data.value, runName: name.value, port: 0, log: () => {}, auto: true });
  if (!server.ok) throw new Error(server.reason);
  toClose.push(server.value);
  return { server: server.value, data: data.value };
}

test('[AP2] [CO25] a newcomer that makes a step shorter is taken in without a roll-back, with reasons; a slow one is spare', async () => {
  const { server, data } = await serve();
  const first = new ScriptedDonor(server.url, { profile: profile(0.05) });
  await first.hears('start');
  const second = new ScriptedDonor(server.url, { profile: profile(0.02) });
  const { plan, epoch, source } = await second.hears('prepare');
  expect(source.from).toBe('peers');
  expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer))).toContain(second.welcome.peer);
  await second.hears('committed', (message) => message.epoch === epoch);
  const slow = new ScriptedDonor(server.url, { profile: profile(40) });
  await slow.hears('standby', ({ state }) => state === 'spare');
  const { snapshot } = operatorSource(server.run, data.store)();
  expect(snapshot).toMatchObject({ generation: 0, planning: { predictedSeconds: expect.any(Number) } });
  expect(snapshot.planning?.verdict).toMatch(/a step takes /);
  const planned = data.store.events('auto', 'planned', 0).map((detail) => JSON.parse(detail));
  const own = planned.find((one) => one.epoch === epoch);
  expect(own).toMatchObject({ predictedSeconds: expect.any(Number) });
  expect(own.reasons.join()).toContain(`${second.welcome.peer}: stage`);
  expect(data.store.epoch('auto', epoch)?.reason).toMatch(/joins.*: with another plan a step takes/);
});

test('[AP6] what a donor measured is found again by its key', async () => {
  const { server, data } = await serve();
  const key = 'a-key-that-a-browser-keeps';
  const donor = new ScriptedDonor(server.url, { profile: profile(0.02), key });
  await donor.hears('committed');
  expect(server.run.donors()[0]?.donor).toMatch(/^[0-9a-f]{64}$/);
  expect(data.store.profile('auto', server.run.donors()[0]?.donor ?? '')).toBeNull(); // it told of no spans
});
