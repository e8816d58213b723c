/** Stages that gather their layers, on Dawn: the golden curve, and what it takes. */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, peerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

const DONORS = ['a', 'b', 'c'].map(peerId);

const gathering = (plan: Plan, gathered: 1 | 2): Plan => ({
  ...plan,
  stages: plan.stages.map((stage) => (stage.members.length > 1 ? { ...stage, gathered } : stage)),
});

/** Layers of the second stage are computed twice. */
const recomputing = (plan: Plan): Plan => ({
  ...plan,
  stages: plan.stages.map((stage) => ({
    ...stage,
    members: stage.members.map((member) => ({ ...member, recompute: [stage.layers[0]] })),
  })),
});

const inHost = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard, place) => (place === 1 ? { ...shard, in: 'host' as const } : shard)),
  })),
});

/** Four micro-batches of two donors through each block while it is there. */
const layered = (plan: Plan): Plan => ({
  ...plan,
  schedule: 'gpipe',
  stages: plan.stages.map((stage) => ({ ...stage, layered: true })),
});

const EVERY = [
  ['gpt2-tiny', 2, 3, 2, 'once a micro-batch'],
  ['gpt2-tiny', 1, 2, 1, 'once a pass'],
  ['gpt2-tiny', 1, 2, 1, 'once a micro-batch'],
  ['llama-tiny', 2, 2, 1, 'once a micro-batch'],
  ['llama-tiny', 2, 2, 1, 'once a pass'],
] as const;

// `npm test -- --long`: all of them.
test.each(process.env.SHOAL_LONG === '1' ? EVERY : EVERY.slice(0, 2))(
  '[PL18] [PL42] [PL50] [PL64] layers gathered: %s, %d whole at a time, %d donors, %d stages, %s',
  async (name, gathered, donors, stages, how) => {
    const dawn = await dawnDevice();
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const { model, run, expected, readState: read, tokens, weights } = await openGoldenCase(name);
    const { globalBatchSize, sequenceLength: sequence } = run.train;
    const split = equalSplit(model, globalBatchSize, DONORS.slice(0, donors), {
      stages,
      microBatches: 4,
      schedule: '1f1b',
    });
    const each = gathering(stages === 2 ? recomputing(split) : inHost(split), gathered);
    const plan = how === 'once a pass' ? layered(recomputing(each)) : each;
    const engine = gpuEngine(gpuOf(dawn.value), model, run.train);
    const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
    for (const role of swarm.roles) {
      expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, sequence));
      if (gathered === 1) expect(roleBytes(role)).toBeLessThan(predictedBytes(model, split, role.peer, sequence));
    }
    for (let step = 0; step < 4; step++) {
      const wanted = at(expected, step);
      // An evaluation of the same samples gathers too, and leaves nothing behind.
      expect(Math.abs((await swarm.evaluate(step)) / wanted.loss - 1), `before step ${step}`).toBeLessThan(2e-6);
      const { loss, gradientNorm, bytes } = await swarm.step(step);
      expect(Math.abs(loss / wanted.loss - 1), `step ${step}`).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `step ${step}`).toBeLessThan(5e-5);
      const { slice, values, activation, gradient } = stepTraffic(model, plan, { sequence, wire: 'f32' });
      expect(bytes).toBe(slice + values + activation + gradient);
    }
    swarm.close();
    await weights.close();
  },
);
