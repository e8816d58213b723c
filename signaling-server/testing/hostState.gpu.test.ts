/** State in main memory on Dawn: the golden curve, what it takes on either side, and copies that are equal bit for bit. */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, type PeerId, peerId } from '../../swarm/base.ts';
import { hostBytes, predictedBytes } from '../../swarm/memory/memory.ts';
import { keepersOf, type Plan } from '../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../swarm/plan/stateKinds.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { Compute } from '../../swarm/precision.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { canHalve } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

const DONORS = ['a', 'b', 'c'].map(peerId) as [PeerId, PeerId, PeerId];

/** Three donors, two of them lanes; each third shard on the GPU, the others in main memory, with a copy at the next donor. */
function mixed(plan: Plan): Plan {
  let count = 0;
  return {
    ...plan,
    state: plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map(({ peer, range }) => {
        const replicas = [at(DONORS, (DONORS.indexOf(peer) + 1) % DONORS.length)];
        return count++ % 3 === 2 ? { peer, range, replicas } : { peer, range, replicas, in: 'host' as const };
      }),
    })),
  };
}

test.each([
  ['gpt2-tiny', 'f32'],
  ['llama-tiny', 'f32'],
  ['gpt2-tiny', 'f16'],
] as const)('[PL40] [ST20] [ST21] state in main memory trains %s in %s to the golden curve', async (name, asked) => {
  const dawn = await dawnDevice();
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const { model, run, expected, readState: read, tokens, weights } = await openGoldenCase(name);
  const { globalBatchSize, sequenceLength } = run.train;
  const plan = mixed(equalSplit(model, globalBatchSize, DONORS, { stages: 2, schedule: '1f1b' }));
  const engine = gpuEngine(gpu, model, run.train, 'f32', asked);
  const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
  const compute: Compute = asked === 'f16' && canHalve(gpu.device, gpu.family) ? 'f16' : 'f32';
  for (const role of swarm.roles) {
    expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, sequenceLength, 'f32', compute));
    expect(role.shards.hostBytes, role.peer).toBe(hostBytes(plan, role.peer, undefined));
  }
  const [lossBound, normBound] = compute === 'f32' ? [2e-6, 5e-5] : [1e-3, 1e-2];
  for (let step = 0; step < (asked === 'f32' ? 6 : 2); step++) {
    const { loss, gradientNorm } = await swarm.step(step);
    const wanted = at(expected, step);
    expect(Math.abs(loss / wanted.loss - 1), `step ${step}`).toBeLessThan(lossBound);
    expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `step ${step}`).toBeLessThan(normBound);
  }
  // Values of copies come beside the next step, moments are their own.
  const moments = STATE_KINDS.filter((kind) => kind !== 'value');
  for (const { block, shards } of plan.state)
    for (const shard of shards) {
      const [own, copy] = await Promise.all(
        keepersOf(shard).map(async (keeper) => {
          const role = swarm.roles.find(({ peer }) => peer === keeper);
          const state = await role?.shards.readState(block, shard.range, moments);
          return Buffer.from(state?.buffer ?? new ArrayBuffer(0));
        }),
      );
      expect(own?.byteLength).toBe(2 * 4 * (shard.range[1] - shard.range[0]));
      expect(copy?.equals(own ?? Buffer.alloc(0)), block).toBe(true);
    }
  swarm.close();
  await weights.close();
});
