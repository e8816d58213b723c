/**
 * Donors behind one router take turns on its line (PL63): the product's decisions and executor on a clock that goes as the
 * cluster's costs do, over lines that carry one message after the other in whatever order they are given.
 */
import { expect, test } from 'vitest';
import { arrayOf, at, invariant, median, peerId, pushToKey } from '../../../../swarm/base.ts';
import { decodeFrame } from '../../../../swarm/messages/frame.ts';
import { acceptedModel } from '../../../../swarm/model/acceptedModel.ts';
import type { Plan } from '../../../../swarm/plan/plan.ts';
import { parseCluster } from '../../../../swarm/planner/cluster.ts';
import { clusterCosts } from '../../../../swarm/planner/clusterCosts.ts';
import { equalSplit, type SplitOptions } from '../../../../swarm/planner/equalSplit.ts';
import { forecast } from '../../../../swarm/planner/forecast.ts';
import { lineTurns } from '../../../../swarm/simulate/lineTurns.ts';
import { SEQUENCE } from './plans.ts';
import { MODEL, SAMPLES, simulate } from './simulation.ts';

const [STEPS, LAYERS] = [4, 6];
const model = acceptedModel({ model: { ...MODEL, n_layer: LAYERS } });
/** Of the prediction: slices of who is done early leave while others still compute, and have more than a part of the line. */
const [LEAST, MOST] = [0.5, 1.02];

/**
 * Homes of two donors, the first of whom is the slower one: left to themselves they would send in another order than the
 * plan's, which takes both for equals. A sample takes 0.4 s over a home's line.
 */
function homes(count: number) {
  const list = arrayOf(2 * count, (index) => ({
    ...{ id: `p${index}`, memoryBytes: 1e6, line: `home ${Math.floor(index / 2)}`, uploadBytesPerSecond: 120 },
    measured: { forwardSecondsPerLayer: [index % 2 ? 0.05 : 0.25], backwardSecondsPerLayer: [index % 2 ? 0.1 : 0.5] },
  }));
  const inside = arrayOf(count, (home) => [`p${2 * home}`, `p${2 * home + 1}`]);
  const pairs = inside.map((between) => ({ between, latencySeconds: 0.001, bytesPerSecond: 1e5 }));
  const found = parseCluster({ peers: list, links: { default: { latencySeconds: 0.02 }, pairs } }, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return { costs: clusterCosts({ model, batch: { samples: SAMPLES, sequence: SEQUENCE }, cluster: found.value }) };
}

async function played(count: number, options: SplitOptions & { readonly schedule: 'gpipe' | '1f1b' }) {
  const { costs } = homes(count);
  const { schedule, ...split } = options;
  const ids = costs.peers.map(({ id }) => peerId(id));
  const lines = arrayOf(count, (home) => ids.slice(2 * home, 2 * home + 2));
  const plan: Plan = { ...equalSplit(model, SAMPLES, ids, { microBatches: SAMPLES, ...split }), schedule, lines };
  const went = new Map<string, string[]>();
  const { problems, commitsMs, epochs } = await simulate({
    ...{ seed: 3, donors: ids.length, steps: STEPS, layers: LAYERS, limitMs: 600_000 },
    ...{ cluster: { costs, plan }, makePlan: () => plan },
    onLine(line, message) {
      const frame = decodeFrame(message);
      if (!frame.ok || (frame.value.kind !== 'activation' && frame.value.kind !== 'gradient')) return;
      const { kind, stage, index } = frame.value;
      pushToKey(went, line, `${kind} ${stage}/${index}`);
    },
  });
  expect({ problems, epochs }).toEqual({ problems: [], epochs: 1 });
  const stepsMs = commitsMs.slice(2).map((ms, index) => ms - at(commitsMs, index + 1));
  return { plan, went, seconds: (median(stepsMs) ?? 0) / 1_000, predicted: forecast(costs, plan).stepSeconds };
}

// Two lanes that cross the line side by side, ATLAS' case; and a home in the middle of a pipeline, whose line carries
// activations on and gradients back.
test.each([
  ['two lanes, gpipe', 2, { stages: 2, schedule: 'gpipe' }],
  ['two lanes, 1f1b', 2, { stages: 2, schedule: '1f1b' }],
  ['one pipeline', 3, { stages: 6, schedule: '1f1b' }],
] as const)(
  '[PL63] %s: what goes over a line goes in the plan’s order, and takes what was predicted',
  async (_, count, options) => {
    const { plan, went, seconds, predicted } = await played(count, options);
    const planned = lineTurns(plan).map((messages) =>
      messages.map(({ action: { op, stage, microBatch } }) =>
        op === 'SEND_F' ? `activation ${stage + 1}/${microBatch}` : `gradient ${stage - 1}/${microBatch}`,
      ),
    );
    const repeated = planned.filter(({ length }) => length > 0).map((one) => Array(STEPS).fill(one).flat());
    const shared = [...went.values()].filter((one) => repeated.some((other) => other[0] === one[0]));
    expect(shared).toEqual(expect.arrayContaining(repeated));
    expect(seconds / predicted).toBeGreaterThan(LEAST);
    expect(seconds / predicted).toBeLessThan(MOST);
  },
);
