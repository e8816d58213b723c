import { describe, expect, it } from 'vitest';
import { arrayOf, peerId } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { parseCluster } from '../planner/cluster.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { savingSeconds } from '../planner/replicas.ts';
import { type Drift, drifted, hasDrifted, isOff } from './drift.ts';
import { isWorth, loadingSeconds, movingSeconds } from './worth.ts';

const A = peerId('a');
const B = peerId('b');

describe('a change of plan', () => {
  it('pays within a hundred steps, and gains five per cent', () => {
    expect(isWorth({ nowSeconds: 1, nextSeconds: 0.8, costSeconds: 19 })).toBe(true);
    expect(isWorth({ nowSeconds: 1, nextSeconds: 0.8, costSeconds: 21 })).toBe(false);
    expect(isWorth({ nowSeconds: 1, nextSeconds: 0.96, costSeconds: 0 })).toBe(false);
    expect(isWorth({ nowSeconds: 1, nextSeconds: 1.2, costSeconds: 0 })).toBe(false);
  });

  it('[HO1] [CO73] moves values and moments over the slowest link, or through the narrowest cap, as checkpoints do', () => {
    const model = modelFromConfig({
      model_type: 'gpt2',
      n_layer: 2,
      n_head: 1,
      n_embd: 8,
      n_positions: 8,
      vocab_size: 16,
    });
    if (!model.ok) throw new Error(model.reason);
    const [alone, both] = [[A], [A, B]].map((peers) => equalSplit(model.value, 2, peers));
    if (!alone || !both) throw new Error('no plans');
    const costs = (upload: number | null) => {
      const peer = (id: string) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e9, uploadBytesPerSecond: upload });
      const links = { default: { latencySeconds: 0.5, bytesPerSecond: 1_000 } };
      const cluster = parseCluster({ peers: [peer('a'), peer('b')], links }, 'c');
      if (!cluster.ok) throw new Error(cluster.reason);
      return clusterCosts({ model: model.value, batch: { samples: 2, sequence: 8 }, cluster: cluster.value });
    };
    // The second layer and the head with their moments, and the tied table's values.
    const elements = (name: string): number => model.value.blocks.find((block) => block.name === name)?.elements ?? 0;
    const bytes = 4 * (3 * (elements('layer.1') + elements('head')) + 16 * 8);
    expect(movingSeconds(model.value, costs(null), alone, both)).toBeCloseTo(0.5 + bytes / 1_000, 9);
    expect(movingSeconds(model.value, costs(100), alone, both)).toBeCloseTo(bytes / 100, 9);
    expect(movingSeconds(model.value, costs(null), both, both)).toBe(0);
    const some = costs(null);
    const at0 = {
      ...some,
      peers: some.peers.map((peer) => (peer.id === B ? { ...peer, upload: 0, download: 0 } : peer)),
    };
    // Who moves and keeps nothing takes no time, whatever its line.
    expect([movingSeconds(model.value, at0, alone, alone), savingSeconds(at0, alone)]).toEqual([0, 0]);
    // Of both the one with more of the state: the embedding and a layer, each with its moments.
    const saved = 4 * 3 * (elements('embedding') + elements('layer.0'));
    expect(elements('embedding') + elements('layer.0')).toBeGreaterThan(elements('layer.1') + elements('head'));
    expect([savingSeconds(costs(100), both), savingSeconds(costs(null), both)]).toEqual([saved / 100, 0]);
    // From the server come the values of the tied table too, to who has the head; a line that nobody knows is a good one.
    const loaded = 4 * (3 * (elements('layer.1') + elements('head')) + 16 * 8);
    const narrow = some.peers.map((peer) => (peer.id === B ? { ...peer, download: 10 } : peer));
    expect(loadingSeconds({ ...some, peers: narrow }, both)).toBeCloseTo(loaded / 10, 9);
    expect(loadingSeconds(some, both)).toBeCloseTo(saved / 5e6, 12);
  });
});

describe('drift', () => {
  it('is ten steps in a row more than a fifth off in one direction, once', () => {
    let drift: Drift | null = null;
    const steps = (measured: number, count: number) =>
      arrayOf(count, () => {
        drift = drifted(drift, measured, 1);
        return hasDrifted(drift);
      });
    expect(steps(1.3, 9)).not.toContain(true);
    expect(steps(1.1, 1)).not.toContain(true);
    expect(steps(1.3, 9)).not.toContain(true);
    expect(steps(0.7, 9)).not.toContain(true);
    expect(steps(0.7, 1)).toEqual([true]);
    expect(steps(0.7, 10)).not.toContain(true);
  });

  it('needs something to compare with', () => {
    expect([isOff(1.2, 1), isOff(1.21, 1), isOff(0.8, 1), isOff(0.79, 1), isOff(5, 0)]).toEqual([
      ...[false, true, false, true, false],
    ]);
  });
});
