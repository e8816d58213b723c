/** State in main memory on Dawn: the golden curve, what it takes on either side, and copies that are equal bit for bit. */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, invariant, type PeerId, peerId, seededRandom } from '../../swarm/base.ts';
import { hostBytes, predictedBytes } from '../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { keepersOf, type Plan } from '../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../swarm/plan/stateKinds.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { Compute } from '../../swarm/precision.ts';
import type { MicroTokens } from '../../web/src/executor/engine.ts';
import { type ReadState, roleBytes } from '../../web/src/executor/role.ts';
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

/** So large that its update has to stop for other work. */
const LARGE = { model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 64, n_positions: 16, vocab_size: 12_000 };

test('a step that begins while the update before it goes on in main memory has the same bits as after it', async () => {
  const dawn = await dawnDevice();
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const parsed = modelFromConfig(LARGE);
  invariant(parsed.ok, 'a valid model');
  const model = parsed.value;
  const { run } = await openGoldenCase('gpt2-tiny');
  const train = { ...run.train, globalBatchSize: 2, sequenceLength: 16 };
  const split = equalSplit(model, 2, [peerId('a')], { microBatches: 2 });
  const plan: Plan = {
    ...split,
    state: split.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, in: 'host' })),
    })),
  };
  const read: ReadState = async (block, kind, [from, to]) => {
    const random = seededRandom(block.length + from);
    return Float32Array.from({ length: to - from }, () => (kind === 'value' ? (random() - 0.5) / 10 : 0));
  };
  const tokens = (step: number): MicroTokens => {
    const random = seededRandom(step);
    const [ids, targets] = [0, 1].map(() => Uint32Array.from({ length: 16 }, () => random() * 12_000));
    return { ids: ids ?? new Uint32Array(), targets: targets ?? new Uint32Array(), firstRows: null };
  };
  let begunWhileWriting = 0;
  const trained = async (isAwaited: boolean) => {
    const engine = gpuEngine(gpuOf(dawn.value), model, train);
    const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
    const { shards } = at(swarm.roles, 0);
    const losses: number[] = [];
    for (let step = 0; step < 4; step++) {
      losses.push((await swarm.step(step)).loss);
      const writing = shards.written?.(0, 'head') ?? null;
      if (isAwaited) await writing;
      else if (writing) begunWhileWriting++;
    }
    const state = await Promise.all(
      model.blocks.map(({ name, elements }) => shards.readState(name, [0, elements], STATE_KINDS)),
    );
    swarm.close();
    return { losses, state: state.map(({ buffer }) => Buffer.from(buffer).toString('base64')) };
  };
  const [beside, after] = [await trained(false), await trained(true)];
  expect(begunWhileWriting).toBeGreaterThan(0);
  expect(new Set(beside.losses).size).toBe(4);
  expect(beside.losses).toEqual(after.losses);
  expect(beside.state.every((one, index) => one === after.state[index])).toBe(true);
});

test.each([
  ['gpt2-tiny', 'f32'],
  ['llama-tiny', 'f32'],
  ['gpt2-tiny', 'f16'],
] as const)('[PL40] [ST20] state in main memory trains %s in %s to the golden curve', async (name, asked) => {
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
