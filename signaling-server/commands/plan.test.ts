import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { readPlans } from '../planning/islandPlans.ts';
import { Captured } from '../testing/captured.ts';
import { runCommand } from './program.ts';

const RUN = fileURLToPath(new URL('../../e2e/golden/gpt2-tiny/run.json', import.meta.url));
const CLUSTER = {
  peers: [
    { id: 'a', memoryBytes: 1e9, flopsPerSecond: 2e8, region: 'eu' },
    { id: 'b', memoryBytes: 1e9, flopsPerSecond: 1e8, region: 'eu' },
    { id: 'slow', memoryBytes: 1e9, flopsPerSecond: 1e5, uploadBytesPerSecond: 1e4 },
  ],
  links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 } },
};

const command = new Captured();
beforeEach(() => command.begin());
afterEach(() => command.end());

function write(cluster: unknown): string {
  const path = join(command.folder, 'cluster.json');
  writeFileSync(path, JSON.stringify(cluster));
  return path;
}

it('answers with a plan that `--plan` reads, with its prediction and the reasons', async () => {
  expect(await runCommand(['plan', RUN, '--cluster', write(CLUSTER), '--json'])).toBe(0);
  expect(command.errors).toBe('');
  const answer = JSON.parse(command.out);
  const plan = ['stages', 'microBatches', 'state', 'schedule', 'warmup'];
  expect(Object.keys(answer)).toEqual([...plan, 'predicted', 'idle', 'reasons']);
  expect(answer.predicted.tokensPerSecond).toBeCloseTo((8 * 32) / answer.predicted.stepSeconds, 6);
  expect(Object.keys(answer.predicted.peers[0])).toEqual([
    'peer',
    'busySeconds',
    'memoryBytes',
    'memoryLimitBytes',
    'sentBytes',
  ]);
  expect(answer.idle.map(({ peer }: { peer: string }) => peer)).toEqual(['slow']);
  expect(answer.reasons.length).toBeGreaterThan(0);
  const model = modelFromConfig({
    model_type: 'gpt2',
    n_layer: 4,
    n_head: 4,
    n_embd: 64,
    n_positions: 64,
    vocab_size: 256,
  });
  invariant(model.ok, 'a model');
  const path = join(command.folder, 'plan.json');
  writeFileSync(path, command.out);
  expect(await readPlans(path, model.value, { samples: 8 })).toMatchObject({ ok: true });
});

it('prints a table for people, who count from 1, with what a change of the cluster would do', async () => {
  expect(await runCommand(['plan', RUN, '--cluster', write(CLUSTER), '--what-if', 'add 1 like a'])).toBe(0);
  expect(command.out).toMatch(/s a step, .* tokens a second/);
  expect(command.out).toContain('before the change: ');
  expect(command.out).toContain('slow is left idle: ');
  expect(command.out).toContain('a-2');
  expect(command.out).toMatch(/The bottleneck is /);
  // Why each has its size.
  for (const peer of ['a', 'a-2', 'b'])
    expect(command.out).toMatch(new RegExp(`^${peer}: stage [1-9], layers \\d–\\d, `, 'm'));
});

it('the search ends with its seconds, and says what ran out', async () => {
  const peers = Array.from({ length: 10 }, (_, index) => ({
    ...{ id: `p${index}`, memoryBytes: 1e9, flopsPerSecond: 1e8 * 1.3 ** index, region: index % 2 ? 'eu' : 'us' },
    uploadBytesPerSecond: 1e6 * 1.5 ** (9 - index),
  }));
  const path = write({ ...CLUSTER, peers });
  const step = async (...words: string[]): Promise<number> => {
    const before = command.out.length;
    expect(await runCommand(['plan', RUN, '--cluster', path, '--json', ...words])).toBe(0);
    return JSON.parse(command.out.slice(before)).predicted.stepSeconds;
  };
  const quick = await step();
  expect(command.errors).toBe('');
  expect(await step('--seconds', '0.001')).toBeGreaterThanOrEqual(quick);
  expect(command.errors).toBe(
    'The time ran out: this is the best plan of 0.001 s, the quick search without --seconds takes longer and may find a better one.\n',
  );
});

it.each([
  [[], /required option '--cluster <file>'/],
  // The misspelt one is named first, with what was meant.
  [['--clusterr', 'x'], /unknown option '--clusterr' \(Did you mean --cluster\?\)/],
  [['--cluster', 'nowhere.json'], /nowhere\.json: there is no such file: a cluster file was expected/],
  [['--cluster', 'CLUSTER', '--seconds', 'soon'], /--seconds must be a number above 0, not "soon"/],
  [['--cluster', 'CLUSTER', '--what-if', 'remove z'], /--what-if: "z" must be the id of a peer/],
] as const)('refuses %j', async (words, sentence) => {
  const path = write(CLUSTER);
  expect(await runCommand(['plan', RUN, ...words.map((word) => (word === 'CLUSTER' ? path : word))])).toBe(2);
  expect(command.errors).toMatch(sentence);
});

it('refuses what fits nobody with the memory that is missing', async () => {
  const small = { ...CLUSTER, peers: [{ id: 'a', memoryBytes: 1000, flopsPerSecond: 1e9 }] };
  expect(await runCommand(['plan', RUN, '--cluster', write(small), '--json'])).toBe(2);
  expect(command.out).toBe('');
  expect(command.errors).toMatch(
    /cluster\.json: the model does not fit these donors: about [\d.]+ \w+ of memory is missing/,
  );
});

it('what it says would fit fits as a what-if, beside what does not', async () => {
  const peers = [{ id: 'a', memoryBytes: 3e6, flopsPerSecond: 1e9 }];
  const path = write({ ...CLUSTER, peers });
  expect(await runCommand(['plan', RUN, '--cluster', path])).toBe(2);
  const [, more] = /What would help: .*?(\d+) more donors? like a/.exec(command.errors) ?? [];
  expect(await runCommand(['plan', RUN, '--cluster', path, '--what-if', `add ${more} like a`])).toBe(0);
  expect(command.out).toMatch(/before the change: the model does not fit/);
});

it('says which stage gathers its layers, and why', async () => {
  const sizes = { n_layer: 4, n_head: 4, n_embd: 256, n_positions: 32, vocab_size: 256 };
  const file = JSON.parse(readFileSync(RUN, 'utf8'));
  const run = join(command.folder, 'run.json');
  const data = { ...file.data, files: file.data.files.map((name: string) => join(dirname(RUN), name)) };
  const train = { ...file.train, globalBatchSize: 8, sequenceLength: 32 };
  writeFileSync(
    run,
    JSON.stringify({ ...file, model: { model_type: 'gpt2', ...sizes }, init: { seed: 1 }, data, train }),
  );
  const peers = ['a', 'b', 'c'].map((id) => ({ id, memoryBytes: 43e6, flopsPerSecond: 1e9 }));
  const path = write({ peers, links: { default: { latencySeconds: 0.0005, bytesPerSecond: 1e9 } } });
  expect(await runCommand(['plan', run, '--cluster', path])).toBe(0);
  expect(command.out).toMatch(/Stage 1 gathers its layers.*the best plan without takes \S+ s a step\./);
  expect(command.out).toMatch(/^a: stage 1, gathered layers 1–4, /m);
});

it('[FI12] plans for a head of its own where the weights have one, and --plan wants it planned', async () => {
  const golden = fileURLToPath(new URL('../../e2e/golden/untied-gpt2/', import.meta.url));
  const untied = JSON.parse(readFileSync(join(golden, 'run.json'), 'utf8'));
  const written = (name: string, init: string): string => {
    const path = join(command.folder, name);
    const model = { ...untied.model, tie_word_embeddings: true };
    const data = { ...untied.data, files: [resolve(golden, untied.data.files[0])] };
    writeFileSync(path, JSON.stringify({ ...untied, model, data, init, evaluation: null }));
    return path;
  };
  const cluster = write({ ...CLUSTER, peers: CLUSTER.peers.slice(0, 2) });
  const planned = async (run: string): Promise<string> => {
    command.clear();
    expect(await runCommand(['plan', run, '--cluster', cluster, '--json']), command.errors).toBe(0);
    return command.out;
  };
  const found = written('found.json', resolve(golden, untied.init));
  expect(await planned(found)).toBe(await planned(join(golden, 'run.json')));
  // Weights that are not there are planned for as the config has them.
  const tiedPlan = await planned(written('lost.json', 'lost.safetensors'));
  const path = join(command.folder, 'plan.json');
  writeFileSync(path, tiedPlan);
  command.clear();
  expect(await runCommand(['swarm', found, '--plan', path])).toBe(2);
  expect(command.errors).toContain('of head is in no range');
});
