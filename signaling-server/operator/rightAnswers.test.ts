/** What a run is asked at its evaluations, of an adapter that an independent trainer has taught. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { arrayOf, at, got } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { BlockName } from '../../swarm/model/model.ts';
import { referenceTensors, referenceTrainer } from '../../swarm/reference/trainer.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { failed, need } from '../commands/failure.ts';
import { baseParts } from '../store/baseStore.ts';
import { checkpointWeights, parseManifest } from '../store/checkpointState.ts';
import { addRun } from '../store/dataDirectory.ts';
import { exportRun } from '../store/exportRun.ts';
import { storedDocument } from '../store/runDocument.ts';
import { windowsOf } from '../testing/adapterCase.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { sampleText } from '../texts/sampleText.ts';
import type { KnownAnswer } from '../texts/tokens.ts';
import { openWeights } from '../weights/weights.ts';

const STEPS = 40;
const EVERY = 20;
const LEARNT = [
  ['sun:', 'day'],
  ['moon:', 'night'],
  ['star:', 'far'],
  ['sea:', 'salt'],
] as const;
const ASKED = [...LEARNT, ['cloud:', 'rain']] as const;
const RUN = {
  name: 'tiny',
  model: { model_type: 'gpt2', n_layer: 1, n_head: 2, n_embd: 16, n_positions: 24, vocab_size: 256 },
  data: { files: ['learnt.jsonl'], tokenizer: 'bytes', format: 'completion', packing: false },
  init: { seed: 1 },
  trust: { audit: 0 },
  train: {
    ...{ steps: STEPS, globalBatchSize: 4, sequenceLength: 12 },
    adapter: { type: 'lora', rank: 8, alpha: 16, targets: ['c_attn', 'c_fc', 'c_proj', 'lm_head'] },
    optimizer: { type: 'adamw', learningRate: 0.02, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
  checkpoint: { everySteps: EVERY },
  evaluation: { files: ['learnt.jsonl'], everySteps: EVERY, answers: 'asked.jsonl' },
};

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS }, false);
  servers.writeRun(RUN);
  write(
    'learnt.jsonl',
    LEARNT.map(([prompt, completion]) => ({ prompt, completion })),
  );
  write(
    'asked.jsonl',
    ASKED.map(([prompt, answer]) => ({ prompt, answer: ` ${answer}\n` })),
  );
});
afterEach(() => servers.close());
const write = (name: string, lines: readonly unknown[]): void =>
  writeFileSync(join(dirname(servers.runPath), name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));

/** Values of the adapter after so many steps, by the reference. */
async function taught(): Promise<(step: number, block: BlockName) => Float32Array> {
  const { store, blobs } = await servers.data();
  const document = storedDocument(store, 'tiny');
  const model = modelOf(document.file);
  const read = checkpointWeights(blobs, parseManifest(store.checkpoint('tiny', 0) ?? ''));
  const first = new Map<BlockName, Float32Array>();
  for (const { name, elements } of model.blocks) first.set(name, await read(name, 0, elements));
  const standing = new Map((await baseParts(blobs, document, [0, model.layers])).map((one) => [one.block, one.values]));
  const base = referenceTensors({ blocks: model.standing ?? [] }, (block) => got(standing, block));
  const tensors = referenceTensors(model, (block) => got(first, block));
  const trainer = referenceTrainer(model, tensors, document.file.train, base);
  const windows = await windowsOf(document.file, servers.runPath, model);
  const states = [first];
  for (let step = 0; step < STEPS; step++) {
    trainer.step(windows(step));
    const values = model.blocks.map(({ name, elements, tensors: rows }): [BlockName, Float32Array] => {
      const whole = new Float32Array(elements);
      for (const row of rows) whole.set(got(trainer.tensors, row.name), row.offset);
      return [name, whole];
    });
    states.push(new Map(values));
  }
  return (step, block) => got(at(states, step), block);
}

/** What `shoal sample --temperature 0` writes with an export of the newest checkpoint, compared by hand. */
async function sampledShare(): Promise<number> {
  const folder = join(servers.folder, 'merged');
  const out = need(await exportRun(await servers.data(), 'tiny', folder, { isMerged: true }), failed);
  const model = need(modelFromConfig(JSON.parse(readFileSync(join(out, 'config.json'), 'utf8'))), failed);
  const weights = need(await openWeights(out, model), failed);
  let right = 0;
  for (const [prompt, answer] of ASKED) {
    const sampling = { prompt, tokens: answer.length, temperature: 0, seed: 1 };
    if ((await sampleText(weights.model, weights.readBlock, sampling)) === answer) right++;
  }
  await weights.close();
  rmSync(folder, { recursive: true });
  return right / ASKED.length;
}

test('at each evaluation the share of right answers is that of the texts that its weights write', async () => {
  const metricsPath = join(servers.folder, 'metrics.jsonl');
  const server = await servers.serve({ metricsPath });
  const { store } = await servers.data();
  const first = await sampledShare();
  await ScriptedDonor.joined(server.url, { values: await taught() });
  await server.run.until(({ phase, unasked }) => phase === 'finished' && unasked === null);
  const last = await sampledShare();
  expect(last).toBeGreaterThan(first);
  const shares = store.rightAnswers('tiny');
  expect(shares.get(0)).toMatchObject({ share: first, fromStep: 0 });
  expect(shares.get(STEPS)).toEqual({ share: last, fromStep: STEPS, toStep: STEPS });
  expect(server.run.snapshot().answersRight).toBe(last);
  const line = readFileSync(metricsPath, 'utf8').trimEnd().split('\n').at(-1) ?? '';
  const right = { answersRight: last, answersFromStep: STEPS, answersToStep: STEPS };
  expect(JSON.parse(line)).toMatchObject({ step: STEPS - 1, evaluationLoss: expect.any(Number), ...right });
});

const reason = async (): Promise<string> => {
  const added = await addRun(await servers.data(), servers.runPath);
  return added.ok ? 'accepted' : added.reason.replaceAll(dirname(servers.runPath), 'DIR');
};

test.each([
  [
    [{ prompt: 'a', answer: 'b' }, { prompt: 'a' }],
    'line 2: answer is missing: it must be a text with something in it',
  ],
  [[{ prompt: 'a', answer: ' ' }], 'line 1: answer must be a text with something in it, not " "'],
  [[{ prompt: '', answer: 'b' }], 'line 1: prompt must be a text with something in it, not ""'],
  [['text'], 'line 1: it must be an object with prompt and answer, not "text"'],
  [
    [{ prompt: 'a'.repeat(20), answer: 'abcde' }],
    'line 1: its prompt and its answer have 25 tokens together, and the model has 24 positions',
  ],
  [[], 'has no line: expected a prompt and its answer at least'],
])('%j is refused in one sentence', async (lines, sentence) => {
  write('asked.jsonl', lines);
  expect(await reason()).toBe(`DIR/run.json: evaluation.answers asked.jsonl ${sentence}`);
});

test('of a chat the last answer is asked for, after what its template writes before it; 64 lines are', async () => {
  const template =
    '{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}';
  writeFileSync(join(dirname(servers.runPath), 'chat.jinja'), template);
  const chat = (...contents: readonly string[]) => ({
    messages: contents.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content })),
  });
  write('learnt.jsonl', [chat('a', 'b')]);
  write(
    'asked.jsonl',
    arrayOf(70, (line) => chat('1', '2', '3', ` ${line} `)),
  );
  const data = { files: ['learnt.jsonl'], tokenizer: 'bytes', format: 'chat', chatTemplate: 'chat.jinja' };
  const model = { ...RUN.model, n_positions: 64 };
  servers.writeRun({ ...RUN, model, data, train: { ...RUN.train, sequenceLength: 32 } });
  expect(await reason()).toBe('accepted');
  const { store, blobs } = await servers.data();
  const { answers = '' } = storedDocument(store, 'tiny');
  const known: KnownAnswer[] = JSON.parse(Buffer.from(await blobs.read(answers)).toString());
  expect(known).toHaveLength(64);
  expect(Buffer.from(known[9]?.ids ?? []).toString()).toBe('<user>1|<assistant>2|<user>3|<assistant>');
  expect(known[9]).toMatchObject({ answer: '9', tokens: ' 9 |'.length });
});
