import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { CLUSTER_FILE, MODEL_CONFIG, PLAN_FILE, RUN_FILE, SCHEDULE_FILE, SIZING_FILE } from './fileKinds.ts';
import { readJsonFile } from './jsonFile.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-kinds-'));
afterAll(() => rmSync(folder, { recursive: true }));

const SAMPLES: Readonly<Record<string, string>> = {
  'docs/examples/run.json': RUN_FILE,
  'docs/examples/gpt2-small.json': RUN_FILE,
  'docs/examples/islands.json': RUN_FILE,
  'e2e/golden/gpt2-tiny/run.json': RUN_FILE,
  'docs/examples/cluster.json': CLUSTER_FILE,
  'docs/examples/homes.json': CLUSTER_FILE,
  'docs/examples/schedule.json': SCHEDULE_FILE,
  'docs/examples/shared-line.json': SCHEDULE_FILE,
  'docs/examples/assign.json': SIZING_FILE,
};
const KINDS = [RUN_FILE, CLUSTER_FILE, SCHEDULE_FILE, SIZING_FILE, PLAN_FILE, MODEL_CONFIG];

test.each(Object.entries(SAMPLES))('%s is taken for what it is, and for nothing else', async (path, kind) => {
  for (const expected of KINDS) {
    const read = await readJsonFile(path, expected);
    if (expected === kind) expect(read.ok).toBe(true);
    else expect(read).toEqual({ ok: false, reason: expect.stringContaining(`${path} is ${kind}, not ${expected}`) });
  }
});

test.each(Object.entries(SAMPLES))('%s is read with a byte-order mark as without', async (path, kind) => {
  const marked = join(folder, 'marked.json');
  writeFileSync(marked, Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), readFileSync(path)]));
  expect(await readJsonFile(marked, kind)).toEqual(await readJsonFile(path, kind));
});

test('what is of no known kind is left to whoever reads it', async () => {
  expect((await readJsonFile('package.json', RUN_FILE)).ok).toBe(true);
});
