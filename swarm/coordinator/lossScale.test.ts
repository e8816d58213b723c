/** The loss scale of a run that asks for f16: an overflow is done again at half of it, and costs nothing else. */
import { describe, expect, it } from 'vitest';
import type { ReportMessage, ServerMessage } from '../messages/messages.ts';
import { afterCommit, afterOverflow, FIRST_LOSS_SCALE } from '../precision.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import type { CoordinatorEvent, Effect } from './events.ts';
import type { CoordinatorState } from './state.ts';
import { step } from './step.ts';

describe('the loss scale', () => {
  it('[MP8] doubles after two thousand sound steps, up to a limit, and halves with an overflow, down to one', () => {
    let scale = FIRST_LOSS_SCALE;
    for (let i = 0; i < 1_999; i++) scale = afterCommit(scale);
    expect(scale.scale).toBe(65_536);
    scale = afterCommit(scale);
    expect(scale).toEqual({ scale: 131_072, sound: 0 });
    for (let i = 0; i < 100_000; i++) scale = afterCommit(scale);
    expect(scale.scale).toBe(2 ** 24);
    expect(afterOverflow({ scale: 2, sound: 9 })).toEqual({ scale: 1, sound: 0 });
    expect(afterOverflow({ scale: 1, sound: 9 })).toBeNull();
  });
});

/** One donor, alone, with a state that is followed event by event. */
function alone(compute: 'f32' | 'f16', more: Partial<CoordinatorState['config']> = {}) {
  const swarm = script({ layers: 1, compute, ...more });
  swarm.join('a');
  swarm.settle('* report');
  let state: CoordinatorState = swarm.run.state;
  const event = (happened: CoordinatorEvent): ServerMessage[] => {
    let effects: Effect[];
    [state, effects] = step(state, happened, 2_000);
    return effects.flatMap((effect) => (effect.type === 'send' ? effect.message : []));
  };
  const from = swarm.peer('a');
  const report = (
    epoch: number,
    at: number,
    sumSquares: number | 'Infinity',
    lossSum: number | null,
  ): ReportMessage => {
    const [first, ...others] = swarm.shardsOf('a').map((shard) => ({ ...shard, sumSquares: 0, digests: null }));
    return {
      ...{ type: 'report', epoch, step: at, bytesDirect: 0, bytesRelayed: 0, spans: [] },
      losses: [0, 1, 2, 3, 4, 5].slice(0, microBatches).map((microBatch) => ({ microBatch, lossSum })),
      shards: [{ ...first, sumSquares }, ...others] as ReportMessage['shards'],
    };
  };
  const microBatches = swarm.run.store.plan?.microBatches.length ?? 0;
  return {
    scale: () => state.lossScale?.scale ?? null,
    phase: () => state.phase,
    state: () => state,
    says: (...said: Parameters<typeof report>) => event({ type: 'donorSaid', peer: from, message: report(...said) }),
    ready: (epoch: number) =>
      event({ type: 'donorSaid', peer: from, message: { type: 'ready', epoch, memoryBytes: 1 } }),
  };
}
const starts = (messages: readonly ServerMessage[]) => messages.filter(({ type }) => type === 'start');
const committed = (messages: readonly ServerMessage[]) => messages.find((message) => message.type === 'committed');

describe('a run that asks for f16', () => {
  it('[MP2] [MP7] takes the scale out of the norm and puts it into the clip scale', () => {
    const { says, scale } = alone('f16');
    const answer = says(1, 0, (4 * 65_536) ** 2, 1);
    expect(committed(answer)?.clipScale).toBeCloseTo(1 / 4 / 65_536, 9);
    expect(starts(answer)).toEqual([{ type: 'start', epoch: 1, step: 1, lossScale: 65_536 }]);
    expect(scale()).toBe(65_536);
  });

  it('[MP3] does an overflowing step again at half the scale, as often as it takes, and forgives it', () => {
    const { says, ready, scale, phase } = alone('f16');
    for (const [epoch, half] of [
      [1, 32_768],
      [2, 16_384],
      [3, 8_192],
    ] as const) {
      // biome-ignore format: one line
      expect(says(epoch, 0, 'Infinity', 1).map(({ type }) => type)).toEqual(['abandon', 'prepare']);
      expect(scale()).toBe(half);
      expect(starts(ready(epoch + 1))).toEqual([{ type: 'start', epoch: epoch + 1, step: 0, lossScale: half }]);
    }
    expect(committed(says(4, 0, 1, 1))?.step).toBe(0);
    expect(phase()).toMatchObject({ name: 'training', step: 1 });
  });

  it('[MP3] [CO13] knows no overflow of a loss, nor of a scale of one: that is a fault', () => {
    const lost = alone('f16');
    lost.says(1, 0, 'Infinity', null);
    lost.ready(2);
    lost.says(2, 0, 'Infinity', null);
    expect(lost.phase().name).toBe('diverged');
    expect(lost.scale()).toBe(65_536);
    const broken = alone('f16');
    let epoch = 1;
    for (; epoch < 30 && broken.phase().name !== 'diverged'; epoch++) {
      broken.says(epoch, 0, 'Infinity', 1);
      broken.ready(epoch + 1);
    }
    expect(broken.scale()).toBe(1);
    // Sixteen halvings, then once more and no further.
    expect(epoch).toBe(19);
  });
});

describe('a run in f16 that is disturbed', () => {
  /** The scale after so many commits, where the fifth one from the beginning is the two thousandth sound one. */
  const UNDISTURBED = Array.from({ length: 13 }, (_, commits) =>
    commits < 5 ? { scale: 65_536, sound: 1_995 + commits } : { scale: 131_072, sound: commits - 5 },
  );

  it.each<[string, (swarm: Script) => void]>([
    ['by nothing', () => {}],
    ['by a restart of the server', (swarm) => swarm.restart()],
    ['by the loss of its donor', (swarm) => swarm.gone('a')],
    ['by its operator, who sends it back', (swarm) => swarm.sendBack(4, { name: 'a', tokens: 0 })],
  ])('[MP3] %s goes on as it would have', (_name, disturb) => {
    const swarm = script({ layers: 1, compute: 'f16', steps: 12, checkpointEverySteps: 4 });
    const { run } = swarm;
    run.store.lossScale = { scale: 65_536, sound: 1_995 };
    swarm.restart();
    run.scales.set(0, run.state.lossScale);
    const seen = [run.state.lossScale];
    swarm.join('a');
    for (let isDisturbed = false; run.ended === null; ) {
      swarm.settleOne();
      seen[run.state.committedSteps] = run.state.lossScale;
      if (isDisturbed || run.state.committedSteps !== 6) continue;
      isDisturbed = true;
      disturb(swarm);
      if (!run.connected.has(swarm.peer('a'))) swarm.join('a');
      if (run.state.phase.name === 'returning') swarm.expire();
      expect(run.store.commits.length).toBe(_name === 'by nothing' ? 6 : 4);
    }
    expect(seen).toEqual(UNDISTURBED);
  });
});

it('[CO6] [LE1] a step of examples is a mean over its rows that count, which start says and donors earn', () => {
  const counted = [3, 1, 4, 1, 5, 9, 2];
  const { says, state } = alone('f32', { examples: { counted, order: { type: 'sequential' } } });
  const { samples } = state().config.batch;
  const sumOf = (number: number): number =>
    Array.from({ length: samples }, (_, i) => counted[(number * samples + i) % 7] ?? 0).reduce((a, b) => a + b);
  const before = state().donors[0]?.tokens ?? 0;
  expect(starts(says(1, 0, 16, 1))).toEqual([{ type: 'start', epoch: 1, step: 1, counted: sumOf(1) }]);
  expect(state().newestSteps.at(-1)?.tokens).toBe(sumOf(0));
  expect((state().donors[0]?.tokens ?? 0) - before).toBeCloseTo(sumOf(0), 9);
  expect(state().loss).toBeCloseTo(planMicroBatches(state()) / sumOf(0), 12);
});

it('[CO6] [LE1] a step of preference pairs is a mean over them; its tokens are the rows that count', () => {
  const examples = { counted: [3, 1, 4, 1, 5, 9, 2], order: { type: 'sequential' } as const };
  const adapter = { rank: 1, alpha: 1, targets: ['c_attn'], rslora: false, beta: 0.1 };
  const { batch } = rehearsalTerms({}).config;
  const { says, state } = alone('f32', { examples, batch: { ...batch, adapter } });
  expect(starts(says(1, 0, 16, 1))).toEqual([{ type: 'start', epoch: 1, step: 1, counted: batch.samples }]);
  const tokens = Array.from({ length: batch.samples }, (_, i) => examples.counted[i % 7] ?? 0);
  expect(state().newestSteps.at(-1)?.tokens).toBe(tokens.reduce((a, b) => a + b));
  expect(state().loss).toBeCloseTo(planMicroBatches(state()) / batch.samples, 12);
});

const planMicroBatches = ({ phase }: CoordinatorState): number =>
  'inForce' in phase ? phase.inForce.plan.microBatches.length : 0;

it('[MP2] a run in f32 has no scale, and says none', () => {
  const { says, ready, scale, phase } = alone('f32');
  expect(scale()).toBeNull();
  expect(starts(says(1, 0, 16, 1))).toEqual([{ type: 'start', epoch: 1, step: 1 }]);
  says(1, 1, 'Infinity', 1);
  ready(2);
  says(2, 1, 'Infinity', 1);
  expect(phase().name).toBe('diverged');
  expect(rehearsalTerms({}).config.compute).toBeUndefined();
});
