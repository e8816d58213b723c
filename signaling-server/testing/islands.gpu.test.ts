/** Islands by turns on Dawn, held against the float64 trainer, however the state is placed. */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, invariant, type PeerId, peerId, type Range } from '../../swarm/base.ts';
import { turnAt } from '../../swarm/islands/rounds.ts';
import { hostBytes } from '../../swarm/memory/memory.ts';
import { block, type Model } from '../../swarm/model/model.ts';
import { type BlockState, keepersOf, type Plan } from '../../swarm/plan/plan.ts';
import { stateKinds } from '../../swarm/plan/stateKinds.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { Gpu } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const [A, B, C] = ['a', 'b', 'c'].map(peerId) as [PeerId, PeerId, PeerId];

/** Two stages; each shard has a replica, and one peer keeps state alone. A tied embedding is at both ends. */
function planWithReplicas(model: Model, samples: number): Plan {
  const split = equalSplit(model, samples, [A, B], { microBatches: 2 });
  const state = split.state.map(({ block: name }, place): BlockState => {
    const { elements } = block(model, name);
    const cut = Math.floor(elements / 3);
    const keepers = [A, B, C].map((_, index) => at([A, B, C], (place + index) % 3));
    const [one, other, last] = keepers as [PeerId, PeerId, PeerId];
    const shard = (peer: PeerId, range: Range, replica: PeerId) => ({ peer, range, replicas: [replica] });
    return { block: name, shards: [shard(one, [0, cut], other), shard(other, [cut, elements], last)] };
  });
  return { ...split, state };
}

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
let gpu: Gpu | null = null;
beforeAll(async () => {
  dawn = await dawnDevice();
  if (dawn.ok) gpu = gpuOf(dawn.value);
});

/** Of each step by its number; at the end every keeper of a shard has the same of every kind. */
async function trained(golden: GoldenCase, plan: Plan, steps: number) {
  invariant(gpu, 'a device');
  const { model, run, readState: read, tokens } = golden;
  const engine = gpuEngine(gpu, model, run.train);
  const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
  const losses = new Map<number, { readonly loss: number; readonly gradientNorm: number }>();
  for (let step = 0; step < steps; step++) losses.set(turnAt(run.train, step).number, await swarm.step(step));
  for (const { block: name, shards } of plan.state)
    for (const shard of shards) {
      const copies = await Promise.all(
        keepersOf(shard).map(async (keeper) => {
          const role = swarm.roles.find(({ peer }) => peer === keeper);
          invariant(role, 'a keeper has a role');
          const state = await role.shards.readState(name, shard.range, stateKinds(run.train.islands));
          return Buffer.from(state.buffer);
        }),
      );
      for (const copy of copies) expect(copy.equals(at(copies, 0)), name).toBe(true);
    }
  for (const { peer, islands } of swarm.roles)
    expect(islands?.hostBytes, peer).toBe(hostBytes(plan, peer, run.train.islands));
  swarm.close();
  return losses;
}

describe('islands by turns', () => {
  test("[WI34] with state as int8: each turn begins with its island's own values, near the golden curve", async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('islands-f32');
    const plan = { ...planWithReplicas(golden.model, golden.run.train.globalBatchSize), stateWire: 'int8' } as const;
    const losses = await trained(golden, plan, golden.run.train.steps);
    for (const [number, { loss }] of golden.expected.entries())
      expect(Math.abs((losses.get(number)?.loss ?? Number.NaN) / loss - 1), `loss of ${number}`).toBeLessThan(1e-3);
    await golden.weights.close();
  });

  test.each([
    ['islands-f32', 2e-6, 5e-5],
    ['islands-sparse', 1e-3, 1e-2], // near ties may be chosen otherwise
  ])('[IS21] [IS22] alone: the golden curve of %s, all islands and rounds', async (name, lossWithin, normWithin) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase(name);
    const plan = equalSplit(golden.model, golden.run.train.globalBatchSize, [A]);
    const losses = await trained(golden, plan, golden.run.train.steps);
    expect(losses.size).toBe(golden.expected.length);
    for (const [number, wanted] of golden.expected.entries()) {
      const { loss, gradientNorm } = losses.get(number) ?? { loss: Number.NaN, gradientNorm: Number.NaN };
      expect(Math.abs(loss / wanted.loss - 1), `loss of ${number}`).toBeLessThan(lossWithin);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of ${number}`).toBeLessThan(normWithin);
    }
    await golden.weights.close();
  });

  test('[IS21] [IS22] [RE12] with replicas and a peer who keeps state alone, all keepers have the same planes', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('islands-f32');
    const plan = planWithReplicas(golden.model, golden.run.train.globalBatchSize);
    const losses = await trained(golden, plan, 15); // a round of twelve steps, and into the next one
    expect(losses.size).toBe(15);
    for (const [number, { loss, gradientNorm }] of losses) {
      const wanted = at(golden.expected, number);
      expect(Math.abs(loss / wanted.loss - 1), `loss of ${number}`).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of ${number}`).toBeLessThan(5e-5);
    }
    await golden.weights.close();
  });
});
