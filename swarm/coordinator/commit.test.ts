import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { peerId, success } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { script } from '../testing/script.ts';
import type { DonorMessage } from './events.ts';
import { snapshot } from './snapshot.ts';
import { clipScale, dutiesOf, tally } from './tally.ts';

/** Two donors at step 0, neither has reported. */
function training(part: Parameters<typeof script>[0] = {}) {
  const swarm = script({ expectedDonors: 2, layers: 2, ...part });
  swarm.join('a', 'b');
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}

const terms = rehearsalTerms({ layers: 2 });
const model = acceptedModel(terms.config);
const plan = terms.makePlan([peerId('a'), peerId('b')], new Map());
if (!plan.ok) throw new Error(plan.reason);
const split = plan.value;

const report = (
  shards: [string, number | 'NaN'][],
  losses: number[] = [],
  digest: string | null = null,
): ReportMessage => ({
  ...{ type: 'report', epoch: 1, step: 0, bytesDirect: 1, bytesRelayed: 2, spans: [] },
  losses: losses.map((lossSum, microBatch) => ({ microBatch, lossSum })),
  shards: shards.map(([block, sumSquares]) => ({
    block,
    range: [0, 10],
    sumSquares,
    digests: digest === null ? null : [digest],
  })),
});
const first = report([['embedding', 1], ['layer.0', 2]]); // biome-ignore format: one shard a line says nothing
const last = report(
  [
    ['layer.1', 3],
    ['head', 3],
  ],
  [10, 20, 30],
);

describe('the sums of a step', () => {
  const duties = dutiesOf(model, split);
  const [a, b] = [peerId('a'), peerId('b')];

  it('[CO1] is open until every primary and every loss is in', () => {
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[a, first]]), 30)).toEqual({
      outcome: 'open',
    });
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[b, last]]), 30)).toEqual({
      outcome: 'open',
    });
  });

  it('[CO2] adds losses by id and squares by block, whatever came first', () => {
    const whole = { outcome: 'whole', differing: [], loss: 2, gradientNorm: 3, bytesDirect: 2, bytesRelayed: 4 };
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[a, first], [b, last]]), 30)).toEqual(whole); // biome-ignore format: one line
    const turned = { ...last, losses: last.losses.toReversed(), shards: last.shards.toReversed() };
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[b, turned], [a, first]]), 30)).toEqual(whole); // biome-ignore format: one line
  });

  it('[CO2] gives the same bits for every order of arrival', () => {
    const number = fc.double({ min: 0, max: 1e6, noNaN: true });
    fc.assert(
      fc.property(fc.array(number, { minLength: 3, maxLength: 3 }), number, number, (losses, x, y) => {
        const reports = [
          [a, report([['embedding', x], ['layer.0', y]])], // biome-ignore format: one line
          [b, report([['layer.1', y], ['head', x]], losses)], // biome-ignore format: one line
        ] as const;
        const forth = tally({ plan: split, duties, lacking: [], filling: null }, new Map(reports), 30);
        expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map(reports.toReversed()), 30)).toEqual(
          forth,
        );
      }),
    );
  });

  it('[CO2] clips to the limit', () => {
    expect(clipScale(4, null)).toBe(1);
    expect(clipScale(0, 1)).toBe(1);
    expect(clipScale(4, 1)).toBe(1 / (4 + 1e-6));
  });

  it('[CO13] is not finite where a loss is null or a square is not finite', () => {
    const lost = { ...last, losses: last.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })) };
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[a, first], [b, lost]]), 30).outcome).toBe('notFinite'); // biome-ignore format: one line
    const wild = report([['embedding', 1], ['layer.0', 'NaN']]); // biome-ignore format: one line
    expect(tally({ plan: split, duties, lacking: [], filling: null }, new Map([[a, wild], [b, last]]), 30).outcome).toBe('notFinite'); // biome-ignore format: one line
  });

  it('[CO1] needs one replica that received what its primary did', () => {
    const copied = {
      ...split,
      state: split.state.map(({ block, shards }) => ({
        block,
        shards: shards.map((shard) => ({ ...shard, replicas: [shard.peer === a ? b : a, peerId('c')] })),
      })),
    };
    const blocks: [string, number][] = [['embedding', 1], ['layer.0', 2], ['layer.1', 3], ['head', 3]]; // biome-ignore format: one line
    const [same, other] = ['1'.repeat(22), '2'.repeat(22)];
    const reports = new Map([[a, report(blocks, [], same)], [b, report(blocks, [10, 20, 30], other)]]); // biome-ignore format: one line
    const outcome = () =>
      tally({ plan: copied, duties: dutiesOf(model, copied), lacking: [], filling: null }, reports, 30).outcome;
    expect(outcome()).toBe('open');
    reports.set(peerId('c'), report(blocks, [], '3'.repeat(22)));
    expect(outcome()).toBe('unequal');
    reports.set(b, report(blocks, [10, 20, 30], same));
    expect(outcome()).toBe('whole');
  });
});

describe('a commit', () => {
  it('[CO1] [LE1] stores the record and the ledger, then tells everyone, then starts the next step', () => {
    const swarm = training();
    swarm.pass(2_500);
    swarm.settle('a report');
    expect(swarm.trace()).toEqual([]);
    swarm.settleOne();
    expect(swarm.trace()).toEqual(['commit 0', 'a b < committed e1 step 0', 'a b < start e1 step 1']);
    expect(swarm.run.store.commits).toEqual([
      {
        ...{ step: 0, loss: (20 + 21 + 22) / 30, gradientNorm: 1, learningRate: 0.1, tokens: 30, seconds: 2.5 },
        ...{ donors: 2, stages: 2, microBatches: 3, plan: 1, bytesDirect: 14, bytesRelayed: 0 },
      },
    ]);
    expect(swarm.run.state.donors.map(({ tokens }) => tokens)).toEqual([15, 15]);
  });

  it('[LE2] a roll-back takes the tokens back', () => {
    const swarm = training();
    swarm.settleOne();
    swarm.settleOne();
    expect(swarm.run.state.committedSteps).toBe(1);
    swarm.gone('a');
    expect(swarm.run.state.donors.map(({ tokens }) => tokens)).toEqual([0]);
  });

  it('[CO13] is never made of what is not finite: once more, and alone the run then stands until it is resumed', () => {
    const swarm = script({ layers: 2 });
    swarm.join('a');
    for (const epoch of [1, 2]) {
      swarm.settle('* report');
      swarm.trace();
      swarm.say('a', { ...first, epoch, bytesDirect: 0, bytesRelayed: 0, shards: [...first.shards, ...last.shards], losses: [0, 1, 2].map((microBatch) => ({ microBatch, lossSum: null })) }); // biome-ignore format: one line
    }
    expect(swarm.trace()).toEqual(['a < abandon e2']);
    expect(swarm.run.state.phase).toMatchObject({ name: 'diverged', sentence: expect.stringContaining('Step 1') });
    expect(snapshot(swarm.run.state, 0)).toMatchObject({
      phase: 'paused',
      sentence: expect.stringContaining('diverges'),
    });
    swarm.join('c');
    expect(swarm.run.state.phase.name).toBe('diverged');
    swarm.operator('resume');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 2]);
  });

  it('[CO14] passes over a report of an older epoch or step', () => {
    const swarm = training();
    swarm.settleOne();
    swarm.settleOne();
    swarm.trace();
    swarm.say('a', first);
    swarm.say('a', { ...first, epoch: 0, step: 9 });
    expect(swarm.trace()).toEqual([]);
  });

  it.each<[string, DonorMessage[]]>([
    ['a report twice', [{ ...first, step: 0 }, { ...first, step: 0 }]], // biome-ignore format: one line
    ['a report of a later step', [{ ...first, step: 1 }]],
    ['a report of a later epoch', [{ ...first, epoch: 2 }]],
    ['ready although the step runs', [{ type: 'ready', epoch: 1, memoryBytes: 1 } as const]],
    ['an evaluation', [{ type: 'evaluated', epoch: 1, step: 0, losses: [] } as const]],
    ['an upload', [{ type: 'uploaded', epoch: 1, step: 1, shards: [] } as const]],
  ])('[CO33] refuses %s, and everyone else trains on', (_what, said) => {
    const swarm = training();
    for (const message of said) swarm.say('a', message);
    expect(swarm.trace()).toEqual([
      'refuse a outOfOrder',
      'b < abandon e1',
      'epoch 2 b: a said what nobody asked for',
      'b < prepare e2 step 0 loaded',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO33] refuses a spare that speaks of a plan which it has no part in', () => {
    const swarm = training();
    swarm.join('c');
    swarm.trace();
    swarm.say('c', first);
    expect(swarm.trace()).toEqual(['refuse c outOfOrder']);
  });

  it.each([
    ['lacks a loss', { ...last, losses: last.losses.slice(1) }],
    ['has a loss twice', { ...last, losses: [...last.losses, ...last.losses] }],
    ['lacks a shard', { ...last, shards: last.shards.slice(1) }],
    ['has a shard twice', { ...last, shards: [...last.shards, ...last.shards] }],
    ['has a shard of another peer', { ...last, shards: [...last.shards, ...first.shards] }],
    ['has another range', { ...last, shards: last.shards.map((shard) => ({ ...shard, range: [0, 9] as const })) }],
  ])('[CO12] does the step again when a report %s', (_what, message) => {
    const swarm = training();
    swarm.say('b', message);
    expect(swarm.trace()).toEqual([
      'a b < abandon e1',
      expect.stringMatching(/^epoch 2 a b: the report/),
      'a b < prepare e2 step 0 kept',
    ]);
  });

  it('[CO1] works with a plan of several peers a stage, whoever reports first', () => {
    const terms = rehearsalTerms({ steps: 2, expectedDonors: 2 });
    const swarm = script(
      {},
      {
        ...terms,
        makePlan: ([one, two]) => {
          const made = terms.makePlan(one === undefined ? [] : [one], new Map());
          const [stage] = made.ok ? made.value.stages : [];
          if (!made.ok || one === undefined || two === undefined || stage === undefined) return made;
          const members = [
            { peer: two, microBatches: [2, 0], samples: 4, recompute: [] },
            { peer: one, microBatches: [1], samples: 2, recompute: [] },
          ];
          return success({ ...made.value, stages: [{ ...stage, members }] });
        },
      },
    );
    swarm.join('a', 'b');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits[0]?.loss).toBe((20 + 21 + 22) / 30);
  });
});
