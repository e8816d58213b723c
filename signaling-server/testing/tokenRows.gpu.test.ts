/** Rows of the token table on Dawn: they change no bit of losses, norms and state, and the bytes are those of the plan. */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, invariant, peerId } from '../../swarm/base.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../swarm/plan/stateKinds.ts';
import { withStateSent } from '../../swarm/plan/tokenRows.ts';
import { equalSplit, type SplitOptions } from '../../swarm/planner/equalSplit.ts';
import { ringReplicas } from '../../swarm/testing/ringReplicas.ts';
import { stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import type { Gpu } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const STEPS = 3;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
let gpu: Gpu | null = null;
beforeAll(async () => {
  dawn = await dawnDevice();
  if (dawn.ok) gpu = gpuOf(dawn.value);
});

async function trained({ model, run, readState: read, tokens }: GoldenCase, plan: Plan) {
  invariant(gpu, 'a device');
  const engine = gpuEngine(gpu, model, run.train);
  const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
  const done = [];
  for (let step = 0; step < STEPS; step++) done.push(await swarm.step(step));
  const states: Buffer[] = [];
  for (const { kept, shards } of swarm.roles)
    for (const { block, range } of kept)
      states.push(Buffer.from((await shards.readState(block, range, STATE_KINDS)).buffer));
  swarm.close();
  return { done, states };
}

/** All of the embedding's at the first peer: a tiny vocabulary has no more rows in a share than a lane has tokens. */
const wholeTable = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map(({ block, shards }) =>
    block === 'embedding'
      ? { block, shards: [{ ...at(shards, 0), range: [0, at(shards, shards.length - 1).range[1]] }] }
      : { block, shards },
  ),
});

describe('rows of the token table', () => {
  const cases: readonly (readonly [name: string, donors: number, replicas: number, options: SplitOptions])[] = [
    ['llama-tiny', 2, 1, { stages: 1 }], // untied, in lanes
    ['gpt2-tiny', 4, 1, { stages: 2 }], // tied: the stage with the head sends its gradient whole
  ];
  test.each(cases)(
    '[WI38] change no digit: %s on %i peers, %i replicas, %j',
    async (name, donors, replicas, options) => {
      if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
      const golden = await openGoldenCase(name);
      const { model, run, expected } = golden;
      const { globalBatchSize: samples, sequenceLength: sequence } = run.train;
      const peers = Array.from({ length: donors }, (_, place) => peerId(`d${place}`));
      const dense = ringReplicas(wholeTable(equalSplit(model, samples, peers, options)), replicas);
      const plan = withStateSent(model, dense, { sequence });
      expect(plan.rows).toBe(sequence);
      const [whole, rows] = [await trained(golden, dense), await trained(golden, plan)];
      for (const [step, { loss, gradientNorm, bytes }] of rows.done.entries()) {
        expect(Math.abs(loss / at(expected, step).loss - 1)).toBeLessThan(2e-6);
        expect([loss, gradientNorm]).toEqual([at(whole.done, step).loss, at(whole.done, step).gradientNorm]);
        const sent = [plan, dense].map((one) => Object.values(stepTraffic(model, one, { sequence, wire: 'f32' })));
        expect([bytes, at(whole.done, step).bytes]).toEqual(sent.map((all) => all.reduce((sum, one) => sum + one, 0)));
        expect(bytes).toBeLessThan(at(whole.done, step).bytes);
      }
      expect(rows.states.every((state, place) => state.equals(at(whole.states, place)))).toBe(true);
      await golden.weights.close();
    },
  );
});
