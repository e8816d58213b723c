/** Muon on Dawn over several peers: the golden curve, the bytes that were predicted, and the same bits whoever owns a matrix. */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, got, peerId } from '../../swarm/base.ts';
import { hostBytes, predictedBytes } from '../../swarm/memory/memory.ts';
import { keepersOf, type Plan, problems, type Shard } from '../../swarm/plan/plan.ts';
import { equalSplit, withAllowedCuts } from '../../swarm/planner/equalSplit.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const [A, B, C] = ['a', 'b', 'c'].map(peerId) as [Shard['peer'], Shard['peer'], Shard['peer']];
const STEPS = 3;

const placed = (plan: Plan, shardOf: (shard: Shard, place: number) => Shard): Plan => {
  let place = 0;
  return {
    ...plan,
    state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map((one) => shardOf(one, place++)) })),
  };
};

test('[PL65] [ST21] a matrix gets the same bits in whoever’s shard, near the golden curve; in main memory too', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const golden = await openGoldenCase('muon-tiny');
  const { model, run, expected, readState: read, tokens } = golden;
  const { globalBatchSize: samples, sequenceLength: sequence } = run.train;
  const lanes = withAllowedCuts(model, undefined, equalSplit(model, samples, [A, B, C], { stages: 2 }));
  const kinds = ['value', 'm'] as const;
  const train = async (plan: Plan) => {
    expect(problems(model, { samples }, plan)).toEqual([]);
    const engine = gpuEngine(gpu, model, run.train);
    const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
    for (const role of swarm.roles) {
      expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, sequence));
      expect(role.shards.hostBytes, role.peer).toBe(hostBytes(plan, role.peer, undefined));
    }
    for (let step = 0; step < STEPS; step++) {
      const { loss, gradientNorm } = await swarm.step(step);
      expect(Math.abs(loss / at(expected, step).loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / at(expected, step).gradientNorm - 1), `norm of ${step}`).toBeLessThan(5e-5);
    }
    const found = new Map<string, Float32Array>();
    for (const { block, shards } of plan.state) {
      const whole = new Float32Array(kinds.length * (shards.at(-1)?.range[1] ?? 0));
      for (const shard of shards)
        for (const keeper of keepersOf(shard)) {
          const [from, to] = shard.range;
          const role = swarm.roles.find(({ peer }) => peer === keeper);
          const state = (await role?.shards.readState(block, shard.range, kinds)) ?? new Float32Array();
          for (const [place] of kinds.entries()) {
            const own = state.subarray(place * (to - from), (place + 1) * (to - from));
            const begins = place * (whole.length / kinds.length) + from;
            if (keeper !== shard.peer) expect(own).toEqual(whole.subarray(begins, begins + own.length));
            whole.set(own, begins);
          }
        }
      found.set(block, whole);
    }
    swarm.close();
    return found;
  };
  const one = await train(placed(lanes, (shard) => ({ ...shard, replicas: [shard.peer === A ? B : A] })));
  const others = [A, B, C];
  const moved = placed(lanes, (shard, place) => ({ ...shard, peer: at(others, place % 3), replicas: [] }));
  expect(await train(moved)).toEqual(one);
  const inHost = await train(placed(lanes, (shard, place) => ({ ...shard, ...(place % 2 === 1 && { in: 'host' }) })));
  for (const [block, values] of inHost) {
    const worst = values.reduce((most, value, i) => Math.max(most, Math.abs(value - at(got(one, block), i))), 0);
    expect(worst, block).toBeLessThan(3e-4);
  }
  await golden.weights.close();
});
