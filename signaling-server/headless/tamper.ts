/**
 * Donors that lie, done from outside as anyone could who opens the tools of a browser: the hook of
 * web/src/executor/tampering.ts is put into a donor's worker. `nan`: one element of each activation and gradient becomes NaN on
 * its way out; what the donor itself looks at stays as it is. `lie`: each element of each gradient that it sends, and of its
 * sums, is 1 % larger or smaller: noise of 1 % of their norm. `stale`: it answers with what it had in the step before.
 */
import type { TamperFault } from '../faults/chaosScript.ts';
import type { DonorTab } from './donorTab.ts';

/** From this step on. Resolves when the first tensor is another one; alone in its run, where nothing is sent, NaN is its loss. */
export const tamper = (
  tab: Pick<DonorTab, 'evaluateInWorker'>,
  kind: TamperFault,
  firstStep: number,
): Promise<boolean> => tab.evaluateInWorker(installTampering, { kind, firstStep });

/** A tensor's key, as far as it is read here. */
interface Key {
  readonly kind: string;
  readonly step: number;
  readonly stage: number;
  readonly index: number;
  readonly range: readonly number[];
  readonly encoding?: string;
}

/** Runs in the worker, and knows nothing but what is in it. How packed words lie is in swarm/wire.ts. */
function installTampering({ kind, firstStep }: { kind: TamperFault; firstStep: number }): Promise<boolean> {
  return new Promise((resolve) => {
    /** No number as a float32, and in its low half none as a float16. */
    const NAN_BITS = 0x7fc07e00;
    let newest = -1;
    const isDue = ({ step }: { readonly step: number }): boolean => step >= firstStep;
    const sign = ({ step, stage, index }: Key, place: number): number =>
      Math.imul(place + 8191 * step + 127 * stage + index, 0x9e3779b1) < 0 ? -1 : 1;
    const halfTimes = (half: number, by: number): number => {
      const magnitude = half & 0x7fff;
      // What is next to nothing, or next to infinite, stays.
      return magnitude < 0x400 || magnitude > 0x7b00 ? half : half + Math.round(by * (1024 + (half & 1023)));
    };
    const wordTimes = (word: number, low: number, high: number): number =>
      (halfTimes(word & 0xffff, low) | (halfTimes(word >>> 16, high) << 16)) >>> 0;
    const addNoise = (key: Key, values: Float32Array): void => {
      const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
      const { encoding = 'f32' } = key;
      for (let i = 0; i < values.length; i++) {
        const by = 0.01 * sign(key, i);
        const isFloat = encoding === 'f32' || (encoding === 'int8' && i % 17 === 0);
        if (isFloat) values[i] = (values[i] ?? 0) * (1 + by);
        else if (encoding === 'f16') words[i] = wordTimes(words[i] ?? 0, by, 0.01 * sign(key, ~i));
        else if (encoding === 'int4' && (i % 26) % 5 === 1) words[i] = wordTimes(words[i] ?? 0, by, by);
      }
    };
    const kept = new Map<string, { step: number; now: Float32Array; before: Float32Array | null }>();
    const exchange = (key: Key, values: Float32Array): boolean => {
      const name = `${key.kind}/${key.stage}/${key.index}/${key.range.join('-')}/${key.encoding ?? 'f32'}`;
      const last = kept.get(name);
      const before = (last?.step === key.step ? last.before : last?.now) ?? null;
      kept.set(name, { step: key.step, now: values.slice(), before });
      if (before !== null) values.set(before);
      return before !== null;
    };
    const made = (key: Key, values: Float32Array): void => {
      if (!isDue(key)) return;
      const isLie = kind === 'lie' && key.kind !== 'activation';
      if (isLie) addNoise(key, values);
      if (isLie || (kind === 'stale' && exchange(key, values))) resolve(true);
    };
    const leaves = (key: Key, values: Float32Array): Float32Array => {
      if (kind !== 'nan' || !isDue(key) || !['activation', 'gradient', 'slice', 'heldOut'].includes(key.kind))
        return values;
      const sent = values.slice();
      new Uint32Array(sent.buffer).fill(NAN_BITS, 0, 1);
      newest = key.step;
      resolve(true);
      return sent;
    };
    const reports = <T extends { step: number; losses: readonly object[] }>(report: T): T => {
      const [first, ...others] = report.losses;
      if (kind !== 'nan' || !isDue(report) || newest >= report.step || first === undefined) return report;
      resolve(true);
      return { ...report, losses: [{ ...first, lossSum: null }, ...others] };
    };
    Object.assign(globalThis, { shoalTampering: { made, leaves, reports } });
  });
}
