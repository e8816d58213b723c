import { expect, it } from 'vitest';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { ReportMessage } from '../../swarm/messages/messages.ts';
import type { TraceRow } from '../store/historyStore.ts';
import type { Store } from '../store/store.ts';
import { RunHistory } from './history.ts';
import type { DonorEvent, Observed } from './runObserver.ts';

const [A, B] = [peerId('a'), peerId('b')];
const PLAN = {
  stages: [{ layers: [0, 1], members: [{ peer: A, microBatches: [0], samples: 1, recompute: [] }] }],
  ...{ microBatches: [{ id: 0, samples: [0, 1] }], state: [], schedule: 'gpipe' },
};

/** One span behind a step. */
type Behind = NonNullable<ReportMessage['behind']>['spans'][number] & { readonly step: number };

/** A step of one second that began at its own number of tens, and what its report says of a turn's end. */
function runOf(islands: object | null = {}, plan: object = PLAN) {
  const saved: TraceRow[] = [];
  const told: unknown[] = [];
  const stored = (): TraceRow[] =>
    [...new Map(saved.map((row) => [row.step, row])).values()].sort((a, b) => a.step - b.step);
  const store = {
    addEvent: (_run: string, kind: string, detail: string) => void told.push([kind, JSON.parse(detail).detail]),
    saveTraces: (_run: string, rows: readonly TraceRow[]) => saved.push(...rows),
    trace: (_run: string, step: number) => stored().findLast((row) => row.step <= step) ?? null,
    traceRange: () => (saved.length === 0 ? null : [stored()[0]?.step, stored().at(-1)?.step]),
  };
  const run = { name: 'run', committedSteps: 0, document: { file: { train: islands ? { islands } : {} } } };
  const history = new RunHistory(store as unknown as Store, run as unknown as Observed, () => 0);
  const effect = (given: unknown): void => history.effect(given as DecisionEffect);
  effect({ type: 'storeEpoch', epoch: 1, reason: '', plan });
  const report = (peer: PeerId, number: number, microBatch: number, behind?: Behind): void => {
    const spans = [{ action: `0F${microBatch}`, start: 10 * number, end: 10 * number + 1 }];
    const message = {
      type: 'report',
      epoch: 1,
      step: number,
      spans,
      ...(behind && { behind: { step: behind.step, spans: [behind] } }),
    };
    history.event({ type: 'said', connection: { peer }, message } as unknown as DonorEvent);
  };
  const step = (number: number, behind?: Behind, ofB?: Behind): void => {
    report(A, number, 0, behind);
    if (plan !== PLAN) report(B, number, 1, ofB);
    effect({ type: 'storeCommit', record: { step: number, plan: 1 } });
  };
  const shown = (number: number) => JSON.parse(history.trace(number)?.spans ?? 'null');
  return { history, step, shown, saved, told };
}

const WORK = ['a', '0F0', 0, 1];
const MEETING = { action: 'MEET', start: 12, end: 13.5 };

it('[IS22] a meeting that the next report tells of stands behind its own step', () => {
  const { step, shown } = runOf();
  step(1);
  step(2, { ...MEETING, step: 1 });
  expect(shown(1)).toEqual([WORK, ['a', 'MEET', 2, 3.5]]);
  expect(shown(2)).toEqual([WORK]);
});

it('[IS22] what is no turn’s end, of another step, or longer than any may take, is nobody’s', () => {
  for (const said of [
    { ...MEETING, step: 0 },
    { ...MEETING, step: 1, action: '0F0' },
    { ...MEETING, step: 1, action: 'nonsense' },
    { ...MEETING, step: 1, end: 11 },
    { ...MEETING, step: 1, end: 12 + 3_601 },
    // Before its own work was over.
    { ...MEETING, step: 1, start: 10.5 },
  ]) {
    const { step, shown } = runOf();
    step(1);
    step(2, said);
    expect(shown(1)).toEqual([WORK]);
  }
});

it('[IS22] where the step’s spans are stored already they are stored anew, whole', () => {
  const { history, step, saved } = runOf();
  for (let number = 1; number <= 16; number++) step(number);
  history.range();
  expect(saved).toHaveLength(16);
  step(17, { action: 'SWITCH', start: 162, end: 163, step: 16 });
  history.close();
  expect(saved.slice(16).map((row) => [row.step, JSON.parse(row.spans)])).toEqual([
    [16, [WORK, ['a', 'SWITCH', 2, 3]]],
    [17, [WORK]],
  ]);
});

it('[IS22] a turn that ended while others went on stands behind its own step all the same', () => {
  const { step, shown } = runOf();
  for (const number of [1, 7, 8]) step(number);
  step(2, { ...MEETING, step: 1 });
  expect(shown(1)).toEqual([WORK, ['a', 'MEET', 2, 3.5]]);
  for (const number of [2, 7, 8]) expect(shown(number)).toEqual([WORK]);
});

it('[IS22] two donors that tell of it with reports of different steps stand there both, each once', () => {
  const members = [A, B].map((peer, id) => ({ peer, microBatches: [id], samples: 1, recompute: [] }));
  const microBatches = [0, 1].map((id) => ({ id, samples: [id, id + 1] }));
  const { step, shown } = runOf({}, { ...PLAN, stages: [{ layers: [0, 1], members }], microBatches });
  step(1);
  step(2, { ...MEETING, step: 1 });
  step(3, undefined, { ...MEETING, step: 1, end: 13 });
  step(4, { ...MEETING, step: 1 });
  expect(shown(1)).toEqual([WORK, ['b', '0F1', 0, 1], ['a', 'MEET', 2, 3.5], ['b', 'MEET', 2, 3]]);
});

it('[IS22] a step that is told of late hides no newer one that is stored', () => {
  const { history, step, saved } = runOf();
  for (let number = 1; number <= 48; number++) step(number);
  history.range();
  expect(saved).toHaveLength(48);
  step(49, { ...MEETING, start: 52, end: 53, step: 5 });
  for (const number of [5, 6, 40, 48, 49]) expect(history.trace(number)?.step).toBe(number);
  expect(history.range()).toEqual([1, 49]);
});

it('[IS22] in a run without islands no turn ends', () => {
  const { step, shown } = runOf(null);
  step(1);
  step(2, { ...MEETING, step: 1 });
  expect(shown(1)).toEqual([WORK]);
});

it('a report’s sends stand with its step, its update with the step before, and nobody else’s', () => {
  const { history, shown } = runOf(null, {
    ...PLAN,
    state: [{ block: 'x', shards: [{ peer: A, range: [0, 4], replicas: [] }] }],
  });
  const said = (step: number, spans: readonly object[], behind?: object): void => {
    const work = { action: '0F0', start: 10 * step, end: 10 * step + 1 };
    const message = { type: 'report', epoch: 1, step, spans: [work, ...spans], ...(behind && { behind }) };
    history.event({ type: 'said', connection: { peer: A }, message } as unknown as DonorEvent);
    history.effect({ type: 'storeCommit', record: { step, plan: 1 } } as unknown as DecisionEffect);
  };
  const update = { action: 'UPDATE_HOST', start: 12, end: 12.5 };
  said(1, [
    { action: '0GATHER_F0', start: 10, end: 10.25 },
    { action: '4SEND_F0', start: 10, end: 11 },
  ]);
  said(2, [], { step: 1, spans: [update, { ...update, start: 10.5 }, { action: '0REDUCE', start: 10.75, end: 11.5 }] });
  expect(shown(1)).toEqual([
    WORK,
    ['a', '0GATHER_F0', 0, 0.25],
    ['a', 'UPDATE_HOST', 2, 2.5],
    ['a', '0REDUCE', 0.75, 1.5],
  ]);
  expect(shown(2)).toEqual([WORK]);
});

it('who keeps state alone stands there too, with its update beside the others', () => {
  const shard = (peer: PeerId, range: readonly [number, number]) => ({ peer, range, replicas: [] });
  const { history, shown } = runOf(null, {
    ...PLAN,
    state: [{ block: 'x', shards: [shard(A, [0, 4]), shard(B, [4, 8])] }],
  });
  const said = (peer: PeerId, step: number, spans: readonly object[], behind?: object): void => {
    const message = { type: 'report', epoch: 1, step, spans, ...(behind && { behind }) };
    history.event({ type: 'said', connection: { peer }, message } as unknown as DonorEvent);
  };
  const update = (start: number) => ({ action: 'UPDATE', start, end: start + 0.5 });
  for (const step of [1, 2, 3]) {
    // Told twice, it stands there once.
    said(B, step, [], { step: 1, spans: [update(900)] });
    said(A, step, [{ action: '0F0', start: 10 * step, end: 10 * step + 1 }], { step: 1, spans: [update(12)] });
    history.effect({ type: 'storeCommit', record: { step, plan: 1 } } as unknown as DecisionEffect);
  }
  expect(shown(1)).toEqual([WORK, ['b', 'UPDATE', 2, 2.5], ['a', 'UPDATE', 2, 2.5]]);
});

it('who is gone is lost while it has a part, and has left while it rests', () => {
  const { history, told } = runOf(null);
  const send = (message: object): void => history.effect({ type: 'send', to: A, message } as unknown as DecisionEffect);
  const gone = (): unknown => {
    history.event({ type: 'gone', peer: A, detail: 'its connection closed' });
    return told.at(-1);
  };
  const lost = ['gone', 'its connection closed'];
  const left = ['left', 'its connection closed; it had no work, so nothing was lost'];
  for (const state of ['paused', 'spare', 'finished']) {
    send({ type: 'standby', state });
    expect(gone(), state).toEqual(left);
    expect(gone(), state).toEqual(lost);
  }
  send({ type: 'standby', state: 'paused' });
  send({ type: 'prepare' });
  expect(gone()).toEqual(lost);
  send({ type: 'standby', state: 'left' });
  expect(told.at(-1)).toEqual(['left', undefined]);
  gone();
  expect(told.at(-1)).toEqual(['left', undefined]);
});

it('of groups with islands of their own all plans are in force, and each one’s steps stand with what its donors did', () => {
  const { history, shown } = runOf({ count: 'auto' }, { ...PLAN, islands: [0] });
  const effect = (given: object): void => history.effect(given as DecisionEffect);
  const of = (peer: PeerId): object => ({
    ...PLAN,
    stages: [{ layers: [0, 1], members: [{ peer, microBatches: [0], samples: 1, recompute: [] }] }],
  });
  const inForce = (): number[] => history.plans.map(({ epoch }) => epoch);
  const report = (peer: PeerId, epoch: number, step: number): void => {
    const message = { type: 'report', epoch, step, spans: [{ action: '0F0', start: step, end: step + 1 }] };
    history.event({ type: 'said', connection: { peer }, message } as unknown as DonorEvent);
  };
  effect({ type: 'storeEpoch', epoch: 2, reason: '', plan: { ...of(B), islands: [1] } });
  expect(inForce()).toEqual([1, 2]);
  // Each group counts its own steps; both are at work on theirs.
  report(A, 1, 5);
  report(B, 2, 5);
  effect({ type: 'storeCommit', record: { step: 8, plan: 1 } });
  effect({ type: 'storeCommit', record: { step: 9, plan: 2 } });
  history.close();
  expect([shown(8), shown(9)]).toEqual([[WORK], [['b', '0F0', 0, 1]]]);
  effect({ type: 'storeEpoch', epoch: 3, reason: '', plan: { ...of(B), islands: [1] } });
  expect(inForce()).toEqual([1, 3]);
  effect({ type: 'islandEnded', island: 0, from: 0 });
  expect(inForce()).toEqual([3]);
  effect({ type: 'storeEpoch', epoch: 4, reason: '', plan: of(A) });
  expect(inForce()).toEqual([4]);
});
