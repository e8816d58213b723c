/** Whole runs of islands on the CPU, with the meeting's own arithmetic, against an independent trainer. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { at, invariant } from '../base.ts';
import { headerBytes, LENGTH_BYTES, parseHeader } from '../model/safetensors.ts';
import { parseRunFile } from '../run/runFile.ts';
import { IslandReference } from '../testing/islandReference.ts';
import { turnAt } from './rounds.ts';

const golden = (path: string) => readFileSync(fileURLToPath(new URL(`../../e2e/golden/${path}`, import.meta.url)));

function weights(path: string): Map<string, Float32Array> {
  const file = new Uint8Array(golden(path));
  const header = headerBytes(file, file.length);
  invariant(header.ok, 'a safetensors file');
  const start = LENGTH_BYTES + header.value;
  const parsed = parseHeader(file.subarray(LENGTH_BYTES, start), file.length - start);
  invariant(parsed.ok, 'a header');
  return new Map(
    [...parsed.value.tensors].map(([name, { from, to }]) => [
      name,
      new Float32Array(file.slice(start + from, start + to).buffer),
    ]),
  );
}

/** Past the first meeting; the whole run takes a quarter of a minute each. */
const STEPS = process.env.SHOAL_LONG ? 40 : 13;

// Near ties may be chosen otherwise by a sparse exchange and by int8, so that it is held less closely.
test.each([
  ['islands-f32', 2e-6, 5e-5],
  ['islands-sparse', 1e-3, 1e-2],
])(
  '[IS3] [IS4] %s: loss and norm of each step',
  (name, lossBound, normBound) => {
    const parsed = parseRunFile(JSON.parse(golden(`${name}/run.json`).toString()), name);
    invariant(parsed.ok && parsed.value.train.islands, 'a run with islands');
    const { train } = parsed.value;
    const { islands } = parsed.value.train;
    const text = golden('gpt2-tiny/corpus.txt');
    const initial = weights('gpt2-tiny/init.safetensors');
    const reference = new IslandReference(parsed.value, initial, text, Number(islands.count));
    const rows = golden(`${name}/expected.jsonl`)
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (let step = 0; step < STEPS; step++) {
      const { number, island, endsRound } = turnAt(train, step);
      const row = at(rows, number);
      const { loss, gradientNorm, learningRate } = reference.step(island, number);
      expect(Math.abs(loss / row.loss - 1), `loss of step ${number}`).toBeLessThan(lossBound);
      expect(Math.abs(gradientNorm / row.gradientNorm - 1), `norm of step ${number}`).toBeLessThan(normBound);
      expect(Math.abs(learningRate / row.learningRate - 1)).toBeLessThan(1e-12);
      if (endsRound) reference.meet();
    }
  },
  600_000,
);
