/** The donors' own pacing, in virtual time, beside what the planner predicts of it: their agreement is the product. */
import { describe, expect, it } from 'vitest';
import type { PeerId } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { owner, type Plan } from '../../../swarm/plan/plan.ts';
import { type ClusterCosts, clusterCosts } from '../../../swarm/planner/clusterCosts.ts';
import { planOf } from '../../../swarm/planner/draft.ts';
import { forecast, shapeOf } from '../../../swarm/planner/forecast.ts';
import type { CutSketch } from '../../../swarm/planner/layout.ts';
import { build } from '../../../swarm/schedule/lower.ts';
import { VirtualTime } from '../testing/virtualTime.ts';
import { DutyCycle } from './dutyCycle.ts';

const SPEEDS = [0.32, 0.19, 0.13, 0.08];
/** Of one sample through one layer, alone. */
const [FORWARD, BACKWARD] = [0.005, 0.01];
const LATENCY = 0.002;
/** Of what a stage of all layers gathers one after the other: six units come, of which the head's gradients go; four come again, and five go. */
const MOVED = { F: 7, B: 9 };
const STEPS = 6;
const BATCH = { samples: 16, sequence: 64 };

function costsOf(speeds: readonly number[]): ClusterCosts {
  const model = modelFromConfig({
    model_type: 'gpt2',
    n_layer: 4,
    n_head: 2,
    n_embd: 8,
    n_positions: 64,
    vocab_size: 32,
  });
  if (!model.ok) throw new Error(model.reason);
  const peers = speeds.map((speed, index) => ({
    ...{ id: `p${index}`, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
    measured: { forwardSecondsPerLayer: [FORWARD / speed], backwardSecondsPerLayer: [BACKWARD / speed] },
  }));
  const links = { default: { latencySeconds: LATENCY }, regions: [], pairs: [] };
  const shares = new Map(speeds.map((speed, index) => [`p${index}`, speed]));
  return clusterCosts({ model: model.value, batch: BATCH, cluster: { peers, links }, shares });
}

/** Seconds of the last of some steps, which each donor runs by its own duty cycle. */
async function execute(costs: ClusterCosts, plan: Plan, speeds: readonly number[]): Promise<number> {
  const clock = new VirtualTime();
  const sizes = new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const messages = new Map<string, { readonly here: Promise<void>; readonly arrive: () => void }>();
  const message = (key: string) => {
    let arrive = (): void => {};
    const here = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const known = messages.get(key) ?? { here, arrive };
    messages.set(key, known);
    return known;
  };
  const step = async (peer: PeerId, cycle: DutyCycle): Promise<void> => {
    const own = costs.peers[costs.placeOf(peer)];
    if (!own) throw new Error('no such donor');
    for (const action of build(plan).get(peer) ?? []) {
      if (action.op !== 'F' && action.op !== 'B') continue;
      const { op, stage, microBatch } = action;
      const from = op === 'F' ? stage - 1 : stage + 1;
      if (plan.stages[from] && owner(plan, from, microBatch) !== peer)
        await message(`${op}${stage} ${microBatch}`).here;
      const samples = sizes.get(microBatch) ?? 0;
      const planned = op === 'F' ? costs.forwardSeconds : costs.backwardSeconds;
      const alone = planned(own, shapeOf(plan, stage), samples) * cycle.speed;
      const layers = plan.stages[stage]?.layers ?? [0, 0];
      const idle = plan.stages[stage]?.gathered ? MOVED[op] * LATENCY : 0;
      let done = Promise.resolve();
      const submit = (): void => {
        done = clock.wait(alone + idle);
      };
      const kind = { op, layers, recomputed: 0, samples };
      await cycle.run(
        kind,
        submit,
        () => done,
        () => idle,
      );
      const to = op === 'F' ? stage + 1 : stage - 1;
      if (plan.stages[to]) void clock.wait(LATENCY).then(message(`${op}${to} ${microBatch}`).arrive);
    }
    await cycle.run(
      { op: 'norms' },
      () => {},
      async () => {},
    );
  };
  const cycles = costs.peers.map((_, place) => {
    const cycle = new DutyCycle(clock, undefined, () => 0);
    cycle.speed = speeds[place] ?? 1;
    return cycle;
  });
  const exchange = forecast(costs, plan).stateSeconds;
  let [begun, seconds] = [0, 0];
  const all = (async () => {
    for (let count = 0; count < STEPS; count++) {
      begun = clock.time;
      messages.clear();
      await Promise.all(costs.peers.map(({ id }, place) => step(id, cycles[place] ?? new DutyCycle(clock))));
      await clock.wait(exchange);
      seconds = clock.time - begun;
    }
  })();
  await clock.run();
  await all;
  return seconds;
}

const PLANS: readonly [name: string, draft: CutSketch][] = [
  ['equal stages', { groups: [[0], [1], [2], [3]], layers: [1, 1, 1, 1], microBatches: 16, schedule: 'gpipe' }],
  [
    'stages, few micro-batches',
    { groups: [[3], [0], [2], [1]], layers: [1, 1, 1, 1], microBatches: 4, schedule: '1f1b' },
  ],
  ['lanes', { groups: [[0, 1, 2, 3]], layers: [4], microBatches: 8, schedule: '1f1b' }],
  ['uneven lanes', { groups: [[0, 1, 2, 3]], layers: [4], microBatches: 'sized', schedule: '1f1b' }],
  ['lanes and stages', { groups: [[0, 2, 3], [1]], layers: [3, 1], microBatches: 8, schedule: 'gpipe' }],
  ['lanes that gather', { groups: [[0, 1, 2, 3]], layers: [4], microBatches: 8, schedule: 'gpipe', gathered: [1] }],
  ['a pair', { groups: [[0], [1]], layers: [3, 1], microBatches: 4, schedule: '1f1b' }],
];

describe('what is predicted of throttled donors is what their pacing does', () => {
  it.each(PLANS)('%s, within two per cent', async (_name, draft) => {
    const costs = costsOf(SPEEDS);
    const plan = planOf(costs, draft)?.plan;
    if (!plan) throw new Error('no plan');
    const predicted = forecast(costs, plan).stepSeconds;
    const measured = await execute(costs, plan, SPEEDS);
    expect(Math.abs(predicted / measured - 1), `predicted ${predicted}, measured ${measured}`).toBeLessThan(0.02);
  });
});
