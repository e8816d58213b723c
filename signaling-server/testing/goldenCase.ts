/** A golden case as a test needs it: its run, its initial weights, its tokens, and what the float64 trainer found. */
import { readFile } from 'node:fs/promises';
import { arrayOf, at, type Range } from '../../swarm/base.ts';
import type { BlockName, Model } from '../../swarm/model/model.ts';
import type { StateKind } from '../../swarm/plan/stateKinds.ts';
import { modelOf, parseRunFile, type RunFile, type Train } from '../../swarm/run/runFile.ts';
import { openWeights, type Weights } from '../weights/weights.ts';

interface SampleTokens {
  readonly ids: Uint32Array;
  readonly targets: Uint32Array;
  readonly firstRows: null;
}

export interface GoldenCase {
  readonly run: RunFile;
  readonly model: Model;
  readonly weights: Weights;
  readonly expected: readonly { readonly loss: number; readonly gradientNorm: number }[];
  /** Of checkpoint 0. */
  readState(block: BlockName, kind: StateKind, range: Range): Promise<Float32Array>;
  /** Of a step's samples `[from, to)`. */
  tokens(step: number, samples: Range): SampleTokens;
}

export const goldenFolder = (name: string): URL => new URL(`../../e2e/golden/${name}/`, import.meta.url);

export async function openGoldenCase(name: string): Promise<GoldenCase> {
  const folder = goldenFolder(name);
  const parsed = parseRunFile(JSON.parse(await readFile(new URL('run.json', folder), 'utf8')), name);
  if (!parsed.ok) throw new Error(parsed.reason);
  const run = parsed.value;
  const model = modelOf(run);
  const opened = await openWeights(new URL(String(run.init), folder).pathname, model);
  if (!opened.ok) throw new Error(opened.reason);
  const weights = opened.value;
  const text = await readFile(new URL(at(run.data.files, 0), folder));
  const lines = (await readFile(new URL('expected.jsonl', folder), 'utf8')).trim().split('\n');
  const windows = windowsOf(text, run.train);
  return {
    run,
    model,
    weights,
    expected: lines.map((line) => JSON.parse(line)),
    readState: (block, kind, [from, to]) =>
      kind === 'value' || kind === 'shared'
        ? weights.readBlock(block, from, to)
        : Promise.resolve(new Float32Array(to - from)),
    tokens: (step, samples) => tokensOf(windows(step, samples)),
  };
}

/** T + 1 tokens of each sample `[from, to)`. Sample i of step s is window (s·B + i) mod n: written again, from DA2 and DA3. */
export function windowsOf(
  text: Uint8Array,
  { sequenceLength: T, globalBatchSize: B }: Pick<Train, 'sequenceLength' | 'globalBatchSize'>,
): (step: number, samples: Range) => Uint8Array[] {
  const count = Math.floor((text.length - 1) / T);
  return (step, [from, to]) =>
    arrayOf(to - from, (i) => {
      const start = ((step * B + from + i) % count) * T;
      return text.subarray(start, start + T + 1);
    });
}

export const tokensOf = (windows: readonly Uint8Array[]): SampleTokens => ({
  ids: Uint32Array.from(windows.flatMap((window) => [...window.subarray(0, -1)])),
  targets: Uint32Array.from(windows.flatMap((window) => [...window.subarray(1)])),
  firstRows: null,
});
