/** What is said of a model's folder, for one that can be trained and for what lacks in others. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { plannedBytes } from '../../swarm/memory/memory.ts';
import { adapterModel } from '../../swarm/model/adapter.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { findingsOf, findingsText } from './modelFindings.ts';

const GOLDEN = join(import.meta.dirname, '..', '..', 'e2e', 'golden');
const RUN = JSON.parse(readFileSync(join(GOLDEN, 'llama-tiny/run.json'), 'utf8'));
const CONFIG = RUN.model;

function folderOf(config: object, ...golden: (readonly [from: string, to: string])[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-model-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const [from, to] of golden) cpSync(join(GOLDEN, from), join(folder, to));
  return folder;
}
const found = async (folder: string) => {
  const result = await findingsOf(folder);
  if (!result.ok) throw new Error(result.reason);
  return result.value;
};

it('a folder with everything can be trained, in the memory that its plan takes', async () => {
  const folder = folderOf(CONFIG, ['llama-tiny/init.safetensors', 'model.safetensors']);
  writeFileSync(join(folder, 'LICENSE'), 'terms');
  const all = await found(folder);
  expect(all.findings.map(({ ok, finding }) => [ok, finding])).toEqual([
    [true, expect.stringMatching(/^llama, [\d,]+ parameters: \d layers of width 64, 64 positions, 256 tokens$/)],
    [true, expect.stringMatching(/^\d+ tensors, all there$/)],
    [true, 'no tokenizer.json: it reads bytes'],
    [true, 'LICENSE'],
  ]);
  const model = modelFromConfig(CONFIG);
  if (!model.ok) throw new Error(model.reason);
  const plan = equalSplit(model.value, 4, [peerId('a')], { microBatches: 4 });
  const bytes = plannedBytes(model.value, plan, peerId('a'), { sequence: 64 });
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
  const adapted = adapterModel(model.value, { rank: 16, alpha: 32, targets, rslora: false });
  if (!adapted.ok) throw new Error(adapted.reason);
  const adaptedPlan = equalSplit(adapted.value, 4, [peerId('a')], { microBatches: 4 });
  const adapterBytes = plannedBytes(adapted.value, adaptedPlan, peerId('a'), { sequence: 64 });
  expect(all.memory[0]).toEqual({ donors: 1, sequenceLength: 64, bytes, adapterBytes });
  expect(findingsText(all)).toContain('It can be trained');
});

it('what lacks is named: a family, weights, a tokenizer, a template', async () => {
  const other = await found(folderOf({ model_type: 'mixtral' }));
  expect([other.ok, other.memory]).toEqual([false, []]);
  expect(other.findings[0]?.finding).toMatch(/^config.json: model_type must be .*not "mixtral"/);
  const wide = { ...CONFIG, vocab_size: 300 };
  const files = [
    ['chat-tiny/tokenizer.json', 'tokenizer.json'],
    ['chat-tiny/tokenizer_config.json', 'tokenizer_config.json'],
    ['chat-tiny/plain.jinja', 'chat_template.jinja'],
  ] as const;
  const bare = await found(folderOf(wide, ...files));
  expect(bare.findings.map(({ name, ok }) => [name, ok])).toEqual([
    ...[
      ['model', true],
      ['weights', false],
    ],
    ...[
      ['tokenizer', true],
      ['terms', true],
    ],
  ]);
  expect(bare.findings[2]?.finding).toMatch(/ tokens, a chat template$/);
  expect((await found(folderOf(wide))).findings[2]).toMatchObject({ ok: false, finding: 'no tokenizer.json' });
  expect(await findingsOf(join(GOLDEN, 'templates'))).toMatchObject({ ok: false });
});

it('a folder of an adapter says of which base it is, and what to do with it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-adapter-'));
  const path = join(folder, 'adapter_config.json');
  const config = { peft_type: 'LORA', r: 4, target_modules: ['q_proj', 'v_proj'] };
  writeFileSync(path, JSON.stringify({ ...config, base_model_name_or_path: 'Qwen/Qwen3-0.6B' }));
  const all = await found(folder);
  expect([all.ok, all.memory]).toEqual([false, []]);
  expect(all.findings.map(({ ok, finding }) => [ok, finding])).toEqual([
    [false, 'an adapter of PEFT without its base, of rank 4, of q_proj, v_proj'],
    [true, 'Qwen/Qwen3-0.6B'],
    [true, expect.stringMatching(/^check the folder of Qwen\/Qwen3-0.6B .*"train.adapter.init"$/)],
  ]);
  writeFileSync(path, JSON.stringify({ ...config, base_model_name_or_path: null }));
  expect((await found(folder)).findings[1]).toMatchObject({ ok: false });
  writeFileSync(path, '[]');
  expect(await findingsOf(folder)).toMatchObject({ ok: false });
});
