import { describe, expect, it } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import { TensorCheck } from './tensorCheck.ts';

const KEY: TensorKey = { kind: 'activation', epoch: 1, step: 2, stage: 3, index: 4, range: [0, 2] };
const REPORT: ReportMessage = {
  ...{ type: 'report', epoch: 1, step: 2, bytesDirect: 0, bytesRelayed: 0, spans: [] },
  losses: [{ microBatch: 5, lossSum: 1 }],
  shards: [{ block: 'head', range: [0, 2], sumSquares: 1, digests: null }],
};
const sound = new Float32Array([1, -1]);
const unsound = new Float32Array([1, Number.NaN]);

describe('[CO50] what is looked at in a checked epoch', () => {
  it('says nothing where all is sound', () => {
    const check = new TensorCheck();
    check.look(KEY, sound);
    check.look({ ...KEY, encoding: 'f16' }, sound, peerId('b'));
    expect(check.told(REPORT, 1)).toBe(REPORT);
  });

  it('names the first tensor alone, and whom it came from', () => {
    const check = new TensorCheck();
    check.look(KEY, sound, peerId('b'));
    check.look({ ...KEY, kind: 'gradient', index: 7 }, unsound, peerId('c'));
    check.look(KEY, unsound);
    const lost = { ...REPORT, losses: [{ microBatch: 5, lossSum: null }] };
    const first = { kind: 'gradient', stage: 3, index: 7, from: 'c' };
    expect(check.told(lost, 1)).toEqual({ ...lost, unsound: first });
    expect(check.told(REPORT, 1)).toEqual({ ...REPORT, unsound: first });
  });

  it('has made itself what it sends, its loss, its norms', () => {
    const sends = new TensorCheck();
    // A part of a larger buffer, as a tensor is lent.
    sends.look(KEY, new Float32Array([Number.NaN, 1, Number.POSITIVE_INFINITY]).subarray(1));
    expect(sends.told(REPORT, 1).unsound).toEqual({ kind: 'activation', stage: 3, index: 4 });
    const lost = { ...REPORT, losses: [{ microBatch: 5, lossSum: null }] };
    expect(new TensorCheck().told(lost, 1).unsound).toEqual({ kind: 'loss', stage: 1, index: 5 });
    const overflown: ReportMessage = { ...REPORT, shards: REPORT.shards.map((shard) => ({ ...shard, sumSquares: 'Infinity' })) }; // biome-ignore format: one line
    expect(new TensorCheck().told(overflown, 1).unsound).toEqual({ kind: 'norm', stage: 0, index: 0 });
  });
});
