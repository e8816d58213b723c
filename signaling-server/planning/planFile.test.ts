import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { capacityOf, planWished } from '../../swarm/autoplan/wishes.ts';
import { at, peerId, type Result, seededRandom, success } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { type Plan, peers, SCHEDULE_NAMES } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { Islands } from '../../swarm/run/runFile.ts';
import { scheduleProblems } from '../../swarm/schedule/check.ts';
import { stepSchedule } from '../../swarm/schedule/lower.ts';
import { randomPlanFor } from '../../swarm/testing/randomPlan.ts';
import { readPlans } from './islandPlans.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 20 },
});
if (!parsed.ok) throw new Error(parsed.reason);
const model = parsed.value;
const SAMPLES = 7;

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-plan-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function read(document: unknown, islands?: Islands): Promise<Result<Plan>> {
  const path = join(folder, 'plan.json');
  writeFileSync(path, JSON.stringify(document));
  const plans = await readPlans(path, model, { samples: SAMPLES, islands });
  return plans.ok ? success(at(plans.value, 0)) : plans;
}

const elements = (name: string): number => model.blocks.find((block) => block.name === name)?.elements ?? 0;

/**
 * The whole document of `shoal plan --json`. Peer a has the first and the last stage, micro-batches are uneven and their
 * ids in no order, the stages have lanes unlike each other, `keeper` computes nothing, `far` is idle.
 */
const DOCUMENT = {
  stages: [
    { layers: [0, 1], members: [{ peer: 'a', microBatches: [9, 2, 4], samples: 7, recompute: [] }] },
    {
      layers: [1, 2],
      members: [
        { peer: 'c', microBatches: [4], samples: 1, recompute: [] },
        { peer: 'b', microBatches: [2, 9], samples: 6, recompute: [] },
      ],
    },
    {
      layers: [2, 3],
      members: [
        { peer: 'a', microBatches: [2], samples: 4, recompute: [] },
        { peer: 'c', microBatches: [9, 4], samples: 3, recompute: [] },
      ],
    },
  ],
  microBatches: [
    { id: 4, samples: [6, 7] },
    { id: 9, samples: [0, 2] },
    { id: 2, samples: [2, 6] },
  ],
  state: [
    {
      block: 'embedding',
      shards: [
        { peer: 'keeper', range: [7, elements('embedding')], replicas: [] },
        { peer: 'b', range: [0, 7], replicas: [] },
      ],
    },
    { block: 'layer.0', shards: [{ peer: 'b', range: [0, elements('layer.0')], replicas: [] }] },
    { block: 'layer.1', shards: [{ peer: 'keeper', range: [0, elements('layer.1')], replicas: [] }] },
    { block: 'layer.2', shards: [{ peer: 'c', range: [0, elements('layer.2')], replicas: [] }] },
    { block: 'head', shards: [{ peer: 'a', range: [0, elements('head')], replicas: [] }] },
  ],
  schedule: '1f1b',
  predicted: {
    stepSeconds: 1.5,
    tokensPerSecond: 70,
    peers: [{ peer: 'a', busySeconds: 1, memoryBytes: 1e6, memoryLimitBytes: 4e9, sentBytes: 1e5 }],
  },
  idle: [{ peer: 'far', reason: 'its link is too slow' }],
  reasons: ['a has most memory'],
};

describe('a plan file', () => {
  test('[PL22] with islands that send runs, a shard in the middle of one is refused', async () => {
    const train = { outer: { learningRate: 1, momentum: 0.5 }, publish: 'f32', overlap: false } as const;
    const exchange = { top: 2, chunk: 5, feedback: 0.95 };
    expect(await read(DOCUMENT, { count: 2, innerSteps: 3, ...train, exchange: 'f32' })).toMatchObject({ ok: true });
    expect(await read(DOCUMENT, { count: 2, innerSteps: 3, ...train, exchange })).toEqual({
      ok: false,
      reason: `${join(folder, 'plan.json')}: shard [7, ${elements('embedding')}) of embedding begins in the middle of what islands pack, every 5 elements of a tensor: it may begin at 5: expected a plan for this model and 7 samples a step`,
    });
  });

  test('the whole document of the planner is read; of its fields only those that decide something count', async () => {
    const plan = await read(DOCUMENT);
    const { stages, microBatches, state, schedule } = DOCUMENT;
    expect(plan).toEqual({ ok: true, value: { stages, microBatches, state, schedule } });
    if (plan.ok) expect(peers(plan.value)).toEqual(['a', 'c', 'b', 'keeper']);
  });

  test('[PL12] any valid plan is read, seated and scheduled to its end', async () => {
    const random = seededRandom(20_261_121);
    const everyone = peers((await plansRead(DOCUMENT)).plan);
    for (let round = 0; round < 200; round++) {
      const given = {
        ...randomPlanFor(random, model, SAMPLES, everyone, { recompute: 0.3, replicas: 0.3 }),
        schedule: round % 2 === 0 ? 'gpipe' : '1f1b',
      };
      const { plan, seats } = await plansRead(given);
      expect(scheduleProblems(model, plan, stepSchedule(plan)), JSON.stringify(given)).toEqual([]);
      expect(peers(plan)).toEqual(seats);
    }
  });

  test('replicas stand as the file has them, also with a peer that computes nothing', async () => {
    const state = DOCUMENT.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, replicas: block === 'head' ? ['b', 'another'] : [] })),
    }));
    const plan = await read({ ...DOCUMENT, state });
    expect(plan).toMatchObject({ ok: true, value: { state } });
    if (plan.ok) expect(peers(plan.value)).toEqual(['a', 'c', 'b', 'keeper', 'another']);
  });

  test('[PL10] an id beyond a frame’s is refused', async () => {
    const high = JSON.parse(
      JSON.stringify(DOCUMENT)
        .replaceAll('"id":9', '"id":65536')
        .replaceAll(/\b9(?=[,\]])/g, '65536'),
    );
    expect(await read(high)).toMatchObject({ ok: false, reason: expect.stringContaining('expected ids up to 65535') });
  });

  test('[PL18] a stage may gather its layers', async () => {
    const state = DOCUMENT.state.map(({ block }) => ({
      block,
      shards: [{ peer: block === 'layer.1' ? 'b' : 'a', range: [0, elements(block)] }],
    }));
    const stages = DOCUMENT.stages.map((stage, index) => (index === 1 ? { ...stage, gathered: 2 } : stage));
    const plan = await read({ ...DOCUMENT, stages, state });
    expect(plan.ok && plan.value.stages.map(({ gathered = 0 }) => gathered)).toEqual(
      DOCUMENT.stages.map((_, index) => (index === 1 ? 2 : 0)),
    );
  });

  test('[PL11] of any order is read as it was written, and no limit is no field', async () => {
    const three = ['a', 'b', 'c'].map((name) => peerId(name));
    for (const schedule of SCHEDULE_NAMES) {
      const chosen = schedule === 'chimera' ? three.slice(0, 2) : three;
      const chunks = schedule === 'interleaved' || schedule === 'breadth-first' ? { chunks: 1 } : {};
      const plan = equalSplit(model, SAMPLES, chosen, { schedule, ...chunks });
      expect(await read(plan), schedule).toEqual(success(plan));
      expect(await read({ ...plan, maxInFlight: null, predicted: {}, reasons: [] }), schedule).toEqual(success(plan));
    }
    const bounded = { ...equalSplit(model, SAMPLES, three, { schedule: 'varuna' }), maxInFlight: 2 };
    expect(await read(bounded)).toEqual(success(bounded));
  });

  describe('what would change its meaning, and is not done, is refused by its place', () => {
    const [first, ...others] = DOCUMENT.state;
    const withShard = (more: object) => ({
      ...DOCUMENT,
      state: [{ ...first, shards: first?.shards.map((shard) => ({ ...shard, ...more })) }, ...others],
    });
    const withMember = (more: object) => ({
      ...DOCUMENT,
      stages: DOCUMENT.stages.map((stage) => ({
        ...stage,
        members: stage.members.map((member) => ({ ...member, ...more })),
      })),
    });
    const unknown = 'is unknown: expected the fields that shoal plan --json writes';
    test.each([
      [withShard({ in: 'disk' }), 'state[0].shards[0].in must be gpu or host'],
      [
        { ...DOCUMENT, maxInFlight: 3 },
        `maxInFlight goes with schedule varuna, not with ${DOCUMENT.schedule}: expected a plan for this model and 7 samples a step`,
      ],
      [withMember({ recomputed: [0] }), `stages[0].members[0].recomputed ${unknown}`],
      [withShard({ predicted: 1 }), `state[0].shards[0].predicted ${unknown}`],
      [
        { islands: [{ stages: [] }], predicted: {}, synchronous: null, idle: [], reasons: [] },
        'islands: the run has no train.islands: expected one plan',
      ],
    ])('%#', async (document, reason) => {
      expect(await read(document)).toEqual({ ok: false, reason: `${folder}/plan.json: ${reason}` });
    });

    test('[PL40] nor that a shard lies in main memory, which is done', async () => {
      const plan = await read(withShard({ in: 'host' }));
      expect(plan.ok && plan.value.state[0]?.shards.every((shard) => shard.in === 'host')).toBe(true);
    });

    test('but not where it says what is done anyhow', async () => {
      const plain = { ...withShard({ in: 'gpu' }), warmup: 'normal', maxInFlight: null };
      expect(await read(plain)).toEqual(await read(DOCUMENT));
    });

    test('[PL11] nor an overlapping warm-up, which is done', async () => {
      const plan = await read({ ...DOCUMENT, warmup: 'overlap' });
      expect(plan).toMatchObject({ ok: true, value: { warmup: 'overlap' } });
    });
  });

  /** Read, and seated with donors of other names, as the coordinator does. */
  async function plansRead(document: unknown): Promise<{ plan: Plan; seats: readonly string[] }> {
    const plan = await read(document);
    if (!plan.ok) throw new Error(plan.reason);
    const wishes = { plan: plan.value };
    const seats = peers(plan.value).toReversed();
    expect(capacityOf(model, wishes)).toBe(seats.length);
    const seated = planWished(model, { samples: SAMPLES, sequence: 4 }, wishes)(seats, new Map());
    if (!seated.ok) throw new Error(seated.reason);
    return { plan: seated.value, seats };
  }
});
