import { expect, it } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { ReportMessage } from '../../swarm/messages/messages.ts';
import type { TraceRow } from '../store/operatorStore.ts';
import type { Store } from '../store/store.ts';
import { RunHistory } from './history.ts';
import type { DonorEvent, Observed } from './runObserver.ts';

const A = peerId('a');
const PLAN = {
  stages: [{ layers: [0, 1], members: [{ peer: A, microBatches: [0], samples: 1, recompute: [] }] }],
  ...{ microBatches: [{ id: 0, samples: [0, 1] }], state: [], schedule: 'gpipe' },
};

/** A step of one second that began at its own number of tens, and what its report says of a turn's end. */
function runOf() {
  const saved: TraceRow[] = [];
  const store = {
    addEvent: () => undefined,
    saveTraces: (_run: string, rows: readonly TraceRow[]) => saved.push(...rows),
    trace: () => null,
    traceRange: () => null,
  };
  const history = new RunHistory(store as unknown as Store, { name: 'run', committedSteps: 0 } as Observed, () => 0);
  const effect = (given: unknown): void => history.effect(given as DecisionEffect);
  effect({ type: 'storeEpoch', epoch: 1, reason: '', plan: PLAN });
  const step = (number: number, turnEnd?: ReportMessage['turnEnd']): void => {
    const spans = [{ action: '0F0', start: 10 * number, end: 10 * number + 1 }];
    const message = { type: 'report', epoch: 1, step: number, spans, ...(turnEnd && { turnEnd }) };
    history.event({ type: 'said', connection: { peer: A }, message } as unknown as DonorEvent);
    effect({ type: 'storeCommit', record: { step: number, plan: 1 } });
  };
  const shown = (number: number) => JSON.parse(history.trace(number)?.spans ?? 'null');
  return { history, step, shown, saved };
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
