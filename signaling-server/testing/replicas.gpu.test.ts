/** Replicas on Dawn: what they change (nothing), what they have (what their primary has), and what they take. */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, invariant, type PeerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import type { TensorKey } from '../../swarm/messages/frame.ts';
import { keepersOf } from '../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../swarm/plan/stateKinds.ts';
import type { Compute } from '../../swarm/precision.ts';
import { stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { canHalve, type Gpu } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { type DoneStep, OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';
import { B, KEEPER, planWith } from './replicatedPlan.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
let gpu: Gpu | null = null;
beforeAll(async () => {
  dawn = await dawnDevice();
  if (dawn.ok) gpu = gpuOf(dawn.value);
});

/** Of replicas that compute with nothing, which get them from the primaries at the end of the step. */
function forgetValues({ roles }: OneProcess): void {
  const keeper = roles.find(({ peer }) => peer === KEEPER);
  for (const { block: name, range, isPrimary } of keeper?.kept ?? [])
    if (!isPrimary) keeper?.shards.writeState(name, range, 'value', new Float32Array(range[1] - range[0]).fill(7));
}

async function trained(replicas: number, asked: Compute, steps: number) {
  invariant(gpu, 'a device');
  const golden = await openGoldenCase('gpt2-tiny');
  const { model, run, expected, readState: read, tokens } = golden;
  const plan = planWith(model, replicas);
  const engine = gpuEngine(gpu, model, run.train, 'f32', asked);
  const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
  const { sequenceLength: sequence } = run.train;
  const compute = asked === 'f16' && canHalve(gpu.device, gpu.family) ? 'f16' : 'f32';
  for (const role of swarm.roles)
    expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, sequence, 'f32', compute));
  const done: DoneStep[] = [];
  for (let step = 0; step < steps; step++) {
    if (step === steps - 1) forgetValues(swarm);
    done.push(await swarm.step(step));
  }
  const states: Buffer[] = [];
  for (const { block: name, shards } of plan.state) {
    for (const shard of shards) {
      const [own, ...others] = await Promise.all(
        keepersOf(shard).map(async (keeper) => {
          const place = swarm.roles.findIndex(({ peer }) => peer === keeper);
          const said = at(swarm.reports, place).shards.find(
            (one) => one.block === name && one.range[0] === shard.range[0],
          );
          const state = await at(swarm.roles, place).shards.readState(name, shard.range, STATE_KINDS);
          return { said, bytes: Buffer.from(state.buffer) };
        }),
      );
      invariant(own, 'every shard has a primary');
      states.push(own.bytes);
      expect(own.said?.digests === null, `${name} has a digest`).toBe(others.length === 0);
      for (const { said, bytes } of others) {
        expect(said?.digests, name).toEqual(own.said?.digests);
        expect(said?.sumSquares, name).toBe(own.said?.sumSquares);
        expect(bytes.equals(own.bytes), name).toBe(true);
      }
    }
  }
  const { slice, values, ...stream } = stepTraffic(model, plan, { sequence, wire: 'f32' });
  expect(done[0]?.bytes).toBe(slice + values + stream.activation + stream.gradient);
  swarm.close();
  await golden.weights.close();
  return { states, expected, curve: done.map(({ loss, gradientNorm }) => ({ loss, gradientNorm })) };
}

describe('replicas', () => {
  test('[RE11] [RE12] [RE14] change no bit of the golden curve, and have what their primary has', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const without = await trained(0, 'f32', 4);
    for (const [step, { loss, gradientNorm }] of without.curve.entries()) {
      const wanted = at(without.expected, step);
      expect(Math.abs(loss / wanted.loss - 1)).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1)).toBeLessThan(5e-5);
    }
    for (const replicas of [1, 2]) {
      const { curve, states } = await trained(replicas, 'f32', 4);
      expect(curve).toEqual(without.curve);
      expect(states.every((state, place) => state.equals(at(without.states, place)))).toBe(true);
    }
  });

  test('[RE14] say another digest of a shard of which they got other slices, and of no other', async () => {
    if (!dawn.ok || !gpu) return console.warn(dawn.ok ? 'skipped' : `skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('gpt2-tiny');
    const { model, run, readState: read, tokens } = golden;
    const engine = gpuEngine(gpu, model, run.train);
    const plan = planWith(model, 1);
    const layer2 = model.blocks.findIndex(({ name }) => name === 'layer.2');
    // One byte of what c sends b of the first shard of layer.2, which c keeps too.
    const tampered = (to: PeerId, { kind, index, range }: TensorKey, values: Float32Array<ArrayBuffer>) => {
      if (to === B && kind === 'slice' && index === layer2 && range[0] === 0)
        new Uint8Array(values.buffer, values.byteOffset).set([1], 20);
      return values;
    };
    const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens, tampered });
    await swarm.step(0);
    const differing = plan.state.flatMap(({ block: name, shards }) =>
      shards.flatMap(({ range }) => {
        const words = swarm.reports.flatMap(({ shards: said }) =>
          said.flatMap((one) => (one.block === name && one.range[0] === range[0] ? (one.digests?.join() ?? '') : [])),
        );
        expect(words).toHaveLength(2);
        return words[0] === words[1] ? [] : `${name}/${range[0]}`;
      }),
    );
    expect(differing).toEqual(['layer.2/0']);
    swarm.close();
    await golden.weights.close();
  });

  test('[RE12] [WI10] in a run that asks for f16 too', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const without = await trained(0, 'f16', 2);
    const { curve, states } = await trained(2, 'f16', 2);
    expect(curve).toEqual(without.curve);
    expect(states.every((state, place) => state.equals(at(without.states, place)))).toBe(true);
  });
});
