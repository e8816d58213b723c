import { expect, test } from 'vitest';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { WatchedEvent } from '../../../swarm/messages/watch.ts';
import { INITIAL_STATE, nextState, type OperatorState } from './state.ts';

const [HERE, GONE] = ['zw9lfBeKGFUu', 'ObjMcn-_4xQa'];
const SNAPSHOT: Snapshot = {
  ...{ run: 'r', phase: 'training', sentence: '', generation: 0, epoch: 2, committedSteps: 3, steps: 10 },
  ...{ loss: null, evaluationLoss: null, tokensPerSecond: null },
  donors: [
    {
      ...{ peer: HERE, state: 'computing', stages: [0], layers: null, tokens: 0, memoryBytes: null },
    } as unknown as Snapshot['donors'][number],
  ],
  planning: {
    ...{ epoch: 2, reason: `${GONE} is gone`, predictedSeconds: 1, measuredSeconds: 1, verdict: null },
    reasons: [{ peer: null, text: `The bottleneck is the speed of ${HERE}. lighthouse-12 and acknowledged stay.` }],
  },
};

const said = (state: OperatorState, events: readonly WatchedEvent[]): OperatorState =>
  nextState(state, { type: 'serverSaid', message: { snapshot: SNAPSHOT, recent: [], events: [...events] } });

test('a donor’s id is six characters wherever people read it, in the server’s sentences too', () => {
  const moment = { atMs: 0, step: 1 };
  const came = said(INITIAL_STATE, [
    { ...moment, id: 1, kind: 'gone', peer: GONE, detail: 'it closed its tab' },
    { ...moment, id: 2, kind: 'rollBack', atStep: 3, toStep: 2, reason: `${GONE} is gone` },
  ]);
  const after = said(came, [{ ...moment, id: 3, kind: 'operator', what: `let ${HERE} go at once`, session: 'f00' }]);
  expect(after.snapshot?.planning).toMatchObject({
    reason: 'ObjMcn is gone',
    reasons: [{ text: 'The bottleneck is the speed of zw9lfB. lighthouse-12 and acknowledged stay.' }],
  });
  expect(after.events).toMatchObject([
    { peer: GONE, detail: 'it closed its tab' },
    { reason: 'ObjMcn is gone' },
    { what: 'let zw9lfB go at once' },
  ]);
});
