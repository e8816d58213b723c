import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { islandsOf } from '../testing/islands.ts';
import { donors, outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { gatheredPlan, keeperPlan, layeredPlan, mainMemoryPlan, type StatePlan } from '../testing/statePlans.ts';
import { holders, homeStage, owner, type Plan, peers, placesChanged, planSchema, problems, seated } from './plan.ts';
import { planLinksSchema, streamsOf, wireBetween } from './planLink.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const SEED = 3;

/** Two stages over three peers, the second one shared unevenly; one shard is kept by a peer that does not compute with it. */
const model = outlineModel(3, true);
const plan: Plan = {
  stages: [
    { layers: [0, 1], members: [{ peer: a, microBatches: [0, 1, 2], samples: 7, recompute: [0] }] },
    {
      layers: [1, 3],
      members: [
        { peer: b, microBatches: [1, 2], samples: 4, recompute: [] },
        { peer: a, microBatches: [0], samples: 3, recompute: [1, 2] },
      ],
    },
  ],
  microBatches: [
    { id: 0, samples: [0, 3] },
    { id: 1, samples: [3, 5] },
    { id: 2, samples: [5, 7] },
  ],
  state: [
    {
      block: 'embedding',
      shards: [
        { peer: a, range: [0, 41], replicas: [b] },
        { peer: c, range: [41, 60], replicas: [] },
      ],
    },
    { block: 'layer.0', shards: [{ peer: a, range: [0, 64], replicas: [] }] },
    { block: 'layer.1', shards: [{ peer: b, range: [0, 64], replicas: [] }] },
    { block: 'layer.2', shards: [{ peer: b, range: [0, 64], replicas: [] }] },
    { block: 'head', shards: [{ peer: b, range: [0, 8], replicas: [] }] },
  ],
  schedule: 'gpipe',
};
const batch = { samples: 7 };
const found = (broken: unknown, samples = 7) =>
  problems(model, { samples }, broken as Plan).map(({ rule, text }) => `${rule} ${text}`);

/** The plan with the value at a path replaced. */
function changed(path: string, value: unknown): unknown {
  const copy = structuredClone(plan) as unknown;
  const keys = path.split('.');
  let at = copy as Record<string, unknown>;
  for (const key of keys.slice(0, -1)) at = at[key] as Record<string, unknown>;
  at[keys.at(-1) ?? ''] = value;
  return copy;
}

describe('problems', () => {
  test('a plan with uneven lanes, a peer in two stages and a keeper that does not compute has none', () => {
    expect(problems(model, batch, plan)).toEqual([]);
  });

  test('[PL1] [PL3] [PL4] [PL9] [PL10] random plans of every valid shape have none', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const { model, samples, plan } = randomPlan(seededRandom(seed));
        expect(problems(model, { samples }, plan)).toEqual([]);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  test('[PL23] a link joins two peers of the plan, each way once', () => {
    const linked = (...links: object[]) => found({ ...plan, links });
    const link = { from: a, to: b, streams: 3 };
    expect(linked(link, { from: b, to: a, streams: 1 }, { from: c, to: a, streams: 8 })).toEqual([]);
    expect(linked({ ...link, to: peerId('z') })).toEqual([
      'PL23 link 0 of the plan, from a to z, names z, who is not in the plan',
    ]);
    expect(linked({ ...link, to: a })).toEqual(['PL23 link 0 of the plan, from a to a, joins a peer with itself']);
    expect(linked(link, { from: b, to: c, streams: 2 }, { ...link, streams: 2 })).toEqual([
      'PL23 link 2 of the plan, from a to b, is there more than once',
    ]);
  });

  test('[PL23] a connection carries both ways: the direction that needs more of them decides', () => {
    const links = [
      { from: a, to: b, streams: 3 },
      { from: b, to: a, streams: 5 },
      { from: c, to: a, streams: 2 },
      { from: b, to: c, streams: 4 },
    ];
    expect([...streamsOf(links, a)]).toEqual([
      [b, 5],
      [c, 2],
    ]);
    expect([...streamsOf(undefined, a)]).toEqual([]);
  });

  test('[PL25] a link may say how its stream is written, each way apart; else it is as the run says', () => {
    const links = planLinksSchema.parse([
      { from: 'a', to: 'b', wire: 'int4' },
      { from: 'b', to: 'a', streams: 2 },
    ]);
    expect(links).toEqual([
      { from: a, to: b, wire: 'int4', streams: 1 },
      { from: b, to: a, streams: 2 },
    ]);
    const between = wireBetween({ links }, 'int8');
    expect([between(a, b), between(b, a), between(a, c)]).toEqual(['int4', 'int8', 'int8']);
    expect(wireBetween({ links }, 'auto')(b, a)).toBe('f32');
    expect(planLinksSchema.safeParse([{ from: 'a', to: 'b', wire: 'auto' }]).success).toBe(false);
  });

  test('[PL23] links go with their peers to other seats', () => {
    const linked: Plan = { ...plan, links: [{ from: a, to: c, streams: 3 }] };
    const seats = ['x', 'y', 'z'].map(peerId);
    const [x, , z] = seats;
    expect(seated(linked, seats).links).toEqual([{ from: x, to: z, streams: 3 }]);
  });

  test('[PL18] what a stage gathers lies with its members alone, whatever else is wrong', () => {
    const gathering = (stage: number) => changed(`stages.${stage}.gathered`, 1) as Plan;
    expect(found(gathering(1))).toEqual([]);
    expect(found(gathering(0))).toEqual([
      'PL18 embedding is gathered by the members of its stage, but b, who is none, keeps a part of it',
      'PL18 embedding is gathered by the members of its stage, but c, who is none, keeps a part of it',
    ]);
    const adapted = { ...model, standing: model.blocks };
    expect(problems(adapted, { samples: 2 }, gathering(1)).map(({ text }) => text)).toContain(
      'stage 1 gathers, which no stage of a run with an adapter does',
    );
    const [, ...others] = gathering(1).stages;
    expect(found({ ...plan, stages: others })[0]).toMatch(/^PL1 /);
  });

  test('[PL64] a stage is layered where it gathers, is the only one, and forwards come before backwards', () => {
    const one = { samples: 2, plan: equalSplit(model, 2, [a, b], { stages: 1, microBatches: 2, schedule: 'gpipe' }) };
    const layered = (changes: object, more: Partial<Plan> = {}): Plan => ({
      ...one.plan,
      stages: one.plan.stages.map((stage) => ({ ...stage, gathered: 1, layered: true, ...changes })),
      ...more,
    });
    const faults = (of: Plan) => problems(model, one, of).map(({ rule, text }) => `${rule} ${text}`);
    expect(faults(layered({}))).toEqual([]);
    expect(faults(layered({ gathered: undefined }))).toEqual(['PL64 stage 0 is layered, but gathers nothing']);
    expect(faults(layered({}, { schedule: '1f1b' }))).toEqual([
      'PL64 stage 0 is layered, which goes with schedule gpipe, not with 1f1b',
    ]);
    const gathering = changed('stages.1.gathered', 1) as Plan;
    const stages = gathering.stages.map((stage, place) => (place === 1 ? { ...stage, layered: true as const } : stage));
    expect(found({ ...gathering, stages })).toEqual(['PL64 stage 1 is layered, which is for a plan of one stage']);
    expect(planSchema.parse(JSON.parse(JSON.stringify(layered({}))))).toEqual(layered({}));
    expect(planSchema.safeParse(layered({ layered: false })).success).toBe(false);
  });

  test.each([
    ['[PL1] a gap', 'stages.1.layers', [2, 3], 'PL1 stage 1 has layers [2, 3), so that layer 1 is in no range'],
    ['[PL1] an overlap', 'stages.1.layers', [0, 3], 'PL1 stage 1 has layers [0, 3), but layer 0 comes again'],
    ['[PL1] no layer', 'stages.0.layers', [0, 0], 'PL1 stage 0 has layers [0, 0), which is no range of at least one'],
    ['[PL1] too many layers', 'stages.1.layers', [1, 4], 'PL1 stage 1 has layers [1, 4), but there are only 3'],
    ['[PL1] too few layers', 'stages.1.layers', [1, 2], 'PL1 layer 2 of the model is in no range'],
    ['[PL1] no stages', 'stages', [], 'PL1 layer 0 of the model is in no range'],
    ['[PL3] an id twice', 'microBatches.1.id', 0, 'PL3 micro-batch 0 is there more than once'],
    ['[PL3] a broken id', 'microBatches.1.id', 0.5, 'PL3 micro-batch 0.5 has no whole number as its id'],
    [
      '[PL3] a sample twice',
      'microBatches.1.samples',
      [2, 5],
      'PL3 micro-batch 1 has samples [2, 5), but sample 2 comes again',
    ],
    [
      '[PL3] a sample left out',
      'microBatches.1.samples',
      [4, 5],
      'PL3 micro-batch 1 has samples [4, 5), so that sample 3 is in no range',
    ],
    [
      '[PL3] a negative sample',
      'microBatches.0.samples',
      [-1, 3],
      'PL3 micro-batch 0 has samples [-1, 3), which is no range of at least one',
    ],
    ['[PL4] no owner', 'stages.1.members.0.microBatches', [1], 'PL4 micro-batch 2 has no owner in stage 1'],
    [
      '[PL4] two owners',
      'stages.1.members.1.microBatches',
      [0, 1],
      'PL4 micro-batch 1 is carried more than once in stage 1',
    ],
    [
      '[PL4] an unknown micro-batch',
      'stages.1.members.1.microBatches',
      [0, 9],
      'PL4 member a of stage 1 carries micro-batch 9, which is not in the plan',
    ],
    ['[PL4] an idle member', 'stages.1.members.1.microBatches', [], 'PL4 member a of stage 1 carries no micro-batch'],
    ['[PL4] a member twice', 'stages.1.members.1.peer', b, 'PL4 stage 1 has b as a member more than once'],
    [
      '[PL4] a wrong sum',
      'stages.1.members.0.samples',
      5,
      'PL4 member b of stage 1 says 5 samples, its micro-batches have 4',
    ],
    [
      '[PL7] a foreign layer',
      'stages.1.members.0.recompute',
      [0],
      'PL7 member b of stage 1 recomputes layer 0, which is not in [1, 3)',
    ],
    [
      '[PL7] a layer twice',
      'stages.1.members.0.recompute',
      [1, 1],
      'PL7 member b of stage 1 recomputes layer 1 more than once',
    ],
    ['[PL9] a block left out', 'state.4.block', 'layer.2', 'PL9 the state has no block head'],
    ['[PL9] a block twice', 'state.4.block', 'layer.2', 'PL9 the state has block layer.2 more than once'],
    ['[PL9] an unknown block', 'state.4.block', 'layer.3', 'PL9 the state has block layer.3, which the model has not'],
    [
      '[PL9] a gap',
      'state.0.shards.1.range',
      [42, 60],
      'PL9 a shard of embedding at c has elements [42, 60), so that element 41 is in no range',
    ],
    ['[PL9] no shard', 'state.1.shards', [], 'PL9 element 0 of layer.0 is in no range'],
    [
      '[PL10] its own replica',
      'state.0.shards.0.replicas',
      [a],
      'PL10 shard [0, 41) of embedding has its primary a as a replica too',
    ],
    [
      '[PL10] a replica twice',
      'state.0.shards.0.replicas',
      [b, b],
      'PL10 shard [0, 41) of embedding has replica b more than once',
    ],
    [
      '[PL10] an uploader that is no replica',
      'state.0.shards.0.uploader',
      a,
      'PL10 shard [0, 41) of embedding is uploaded by a, who is none of its replicas',
    ],
    [
      '[PL11] an unknown schedule',
      'schedule',
      'zigzag',
      'PL11 schedule zigzag is unknown: one of gpipe, 1f1b, interleaved, breadth-first, chimera, eager, varuna',
    ],
    [
      '[PL11] a warm-up of another schedule',
      'warmup',
      'overlap',
      'PL11 warmup overlap goes with schedule 1f1b or eager, not with gpipe',
    ],
  ])('%s is reported', (_, path, value, sentence) => {
    expect(found(changed(path, value))).toContain(sentence);
  });

  test('[PL3] a plan for another batch size is reported', () => {
    expect(found(plan, 8)).toEqual(['PL3 sample 7 of the step is in no range']);
    expect(found(plan, 6)).toEqual(['PL3 micro-batch 2 has samples [5, 7), but there are only 6']);
  });

  test('[PL1]-[PL10] whatever number or list of a random plan is changed, it is reported', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const random = seededRandom(seed);
        const { model, samples, plan } = randomPlan(random);
        const broken = broke(plan, random);
        expect(problems(model, { samples }, broken.plan), broken.how).not.toEqual([]);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });
});

/** Breaks a plan in one place. */
function broke(plan: Plan, random: () => number): { plan: Plan; how: string } {
  const copy = structuredClone(plan) as unknown as Mutable<Plan>;
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const stage = pick(copy.stages);
  const member = pick(stage.members);
  const shards = pick(copy.state).shards;
  const shard = pick(shards);
  const [how, act] = pick<[string, () => unknown]>([
    ['a layer more', () => stage.layers[1]++],
    ['a layer later', () => stage.layers[0]++],
    ['a sample more', () => pick(copy.microBatches).samples[1]++],
    ['a sample earlier', () => pick(copy.microBatches).samples[0]--],
    ['a micro-batch lost', () => member.microBatches.pop()],
    ['a micro-batch twice', () => member.microBatches.push(member.microBatches[0] ?? 0)],
    ['a wrong sum', () => member.samples++],
    ['an element more', () => shard.range[1]++],
    ['an element less', () => shard.range[1]--],
    ['a shard lost', () => shards.splice(shards.indexOf(shard), 1)],
    ['its own replica', () => shard.replicas.push(shard.peer)],
    ['a block lost', () => copy.state.pop()],
    ['stages the other way', () => copy.stages.push({ layers: [0, 1], members: stage.members })],
    ['a member twice', () => stage.members.push({ ...member, microBatches: [] })],
  ]);
  act();
  return { plan: copy as unknown as Plan, how };
}
type Mutable<T> = T extends object ? { -readonly [K in keyof T]: Mutable<T[K]> } : T;

test('[PL24] a plan of a part of the islands names them once each, ascending, and not all', () => {
  const of = (islands: readonly number[], count = 3) => {
    const run = { samples: 7, ...(count > 0 ? { islands: islandsOf(count, 2) } : {}) };
    return problems(model, run, { ...plan, islands }).map(({ rule }) => rule);
  };
  for (const islands of [[0], [2], [0, 2], [1, 2]]) expect(of(islands)).toEqual([]);
  for (const islands of [[], [3], [1, 0], [1, 1], [0, 1, 2]]) expect(of(islands)).toEqual(['PL24']);
  expect(of([0], 0)).toEqual(['PL24']);
  expect(problems(model, { samples: 7 }, { ...plan, islands: [1, 0] })).toEqual([
    {
      rule: 'PL24',
      text: 'the plan is of the islands 1, 0: some of the 0 of the run were expected, ascending; of all of them it names none',
    },
  ]);
});

describe('queries', () => {
  test('owner is the one member that carries the micro-batch', () => {
    expect([0, 1, 2].map((id) => owner(plan, 1, id))).toEqual([a, b, b]);
    expect(() => owner(plan, 1, 3)).toThrow('micro-batch 3 has no owner in stage 1');
  });

  test('[PL12] peers come in the order they first appear, keepers after members', () => {
    expect(peers(plan)).toEqual([a, b, c]);
  });

  test('[PL13] holders are ordered by stage, then by lowest micro-batch, never by peer or place in a list', () => {
    expect(holders(model, plan).get('layer.2')).toEqual([
      { stage: 1, peer: a, ranges: [[0, 64]], lowestMicroBatch: 0 },
      { stage: 1, peer: b, ranges: [[0, 64]], lowestMicroBatch: 1 },
    ]);
  });

  test('[PL13] a tied embedding has holders at both ends, the last stage reading the token table alone', () => {
    const ends = holders(model, plan)
      .get('embedding')
      ?.map(({ stage, peer, ranges }) => ({ stage, peer, ranges }));
    expect(ends).toEqual([
      { stage: 0, peer: a, ranges: [[0, 60]] },
      { stage: 1, peer: a, ranges: [[0, 40]] },
      { stage: 1, peer: b, ranges: [[0, 40]] },
    ]);
    expect(holders(outlineModel(3, false), plan).get('embedding')).toHaveLength(1);
  });

  test('every block is at home in one of the stages that hold it', () => {
    expect(plan.state.map(({ block }) => homeStage(plan, block))).toEqual([0, 0, 1, 1, 1]);
  });
});

describe('planSchema', () => {
  test('[PL18] reads how many blocks a stage has whole at a time, one or two', () => {
    const gathering = { ...plan, stages: plan.stages.map((stage) => ({ ...stage, gathered: 2 as const })) };
    expect(planSchema.parse(JSON.parse(JSON.stringify(gathering)))).toEqual(gathering);
    expect(planSchema.safeParse(changed('stages.0.gathered', 3)).success).toBe(false);
  });

  test('reads a plan back and leaves out what is no plan', () => {
    const document = { ...plan, predicted: { stepSeconds: 1 }, idle: [], reasons: ['because'] };
    expect(planSchema.parse(JSON.parse(JSON.stringify(document)))).toEqual(plan);
  });

  test.each([
    ['schedule', 'zigzag'],
    ['stages.0.layers', [0]],
    ['stages.0.layers', [0, 1.5]],
    ['stages.0.members.0.peer', ''],
    ['state.0.block', 'layer.01'],
    ['microBatches.0.id', -1],
    ['islands', [0.5]],
    ['islands', []],
    ['links', {}],
    ['links', [{ from: 'a', to: 'b', wire: 'auto' }]],
    ['links', [{ from: 'a', to: '', streams: 2 }]],
    ['links', [{ from: 'a', to: 'b', streams: 0 }]],
    ['links', [{ from: 'a', to: 'b', streams: 9 }]],
    ['links', [{ from: 'a', to: 'b', streams: 1.5 }]],
  ])('refuses a wrong %s by its place', (path, value) => {
    const result = planSchema.safeParse(changed(path, value));
    expect(result.success).toBe(false);
    expect(result.error?.issues[0]?.path.join('.').startsWith(path)).toBe(true);
  });
});

describe('placesChanged', () => {
  const model = outlineModel(4, true);
  const made = (make: StatePlan) => make(model, 8, donors(4));

  test.each<[StatePlan, StatePlan, string | null]>([
    [keeperPlan, gatheredPlan, 'layers are gathered from now on'],
    [gatheredPlan, keeperPlan, 'layers are gathered no longer, but kept whole'],
    [gatheredPlan, layeredPlan, 'layers are gathered once a pass from now on'],
    [layeredPlan, gatheredPlan, 'layers are gathered for each micro-batch from now on'],
    [keeperPlan, mainMemoryPlan, 'state lies in main memory from now on'],
    [mainMemoryPlan, keeperPlan, 'state lies in main memory no longer'],
    [mainMemoryPlan, layeredPlan, 'layers are gathered from now on, state lies in main memory no longer'],
    [keeperPlan, keeperPlan, null],
    [layeredPlan, layeredPlan, null],
  ])('says what changes, case %#', (before, after, text) => {
    expect(placesChanged(made(before), made(after))).toBe(text);
  });
});
