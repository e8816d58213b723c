import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../../../swarm/base.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import { nextState } from './events.ts';
import type { DonorPhase } from './phase.ts';
import { headlineOf, leaveNowSentence, pendingSentence, stopSentence } from './sentences.ts';
import { type DonorState, INITIAL_STATE } from './state.ts';

const STATUS: DonorStatus = {
  ...{
    activity: 'computing',
    step: 0,
    stages: [],
    stageCount: 1,
    gpuMemoryBytes: 0,
    droppedFrames: 0,
    answeredRows: 0,
  },
  ...{ busyShare: null, bytesSent: 0, bytesReceived: 0, rates: { sent: 0, received: 0, mostReceived: 0 } },
  ...{ microBatches: { done: 3, all: 16 }, direction: 'forward', waitsFor: null, lastStep: null },
};

test('a tab’s first step says how far it is, and that it takes a while', () => {
  const sentenceOf = (status: DonorStatus): string =>
    headlineOf({ ...INITIAL_STATE, phase: { kind: 'computing' }, status }).sentence;
  expect(sentenceOf(STATUS)).toBe('Your first step: 3 of 16 parts done. On a slow computer it takes a minute.');
  for (const all of [0, 1])
    expect(sentenceOf({ ...STATUS, microBatches: { done: 0, all } })).toMatch(/^Your first step has begun\./);
  const credit = { ...INITIAL_STATE.credit, runs: [{ run: 'r', tokens: 9, runTokens: 9, firstDay: '', lastDay: '' }] };
  const again = headlineOf({ ...INITIAL_STATE, phase: { kind: 'computing' }, status: STATUS, credit }).sentence;
  expect(again).toMatch(/^Your next step: 3 of 16 parts done\./);
  const lastStep = { epoch: 1, step: 0, seconds: 4, bytes: 0, spans: [], waits: [] };
  expect(sentenceOf({ ...STATUS, lastStep })).not.toMatch(/first step/);
});

test('who waits for a plan reads the server’s reasons in plain words', () => {
  const me = peerId('me');
  const snapshot = {
    phase: 'training',
    sentence: 'Step 9 was not committed: its loss is not a finite number.',
    donors: [{ peer: me, state: 'joining' }] as Snapshot['donors'],
  } as Snapshot;
  const state: DonorState = { ...INITIAL_STATE, phase: { kind: 'joined' }, me, snapshot };
  expect(headlineOf(state).sentence).toBe('Step 9 came out wrong (its loss is no number).');
});

test('a change of runs is told to its donors, whatever they do, and is over with the next run', () => {
  const run = { name: 'first', steps: 9, compute: 'f32', stepTargets: 16 } as const;
  const snapshot = {
    run: 'first',
    phase: 'training',
    changesTo: 'second',
    donors: [] as Snapshot['donors'],
  } as Snapshot;
  const at = (phase: DonorPhase, rest: Partial<DonorState> = {}) =>
    headlineOf({ ...INITIAL_STATE, run, snapshot, phase, ...rest });
  const words = 'The server changes to second, and your GPU goes on with it by itself.';
  expect(at({ kind: 'computing' })).toMatchObject({
    word: 'Training',
    sentence: `This step is the last for now. ${words}`,
  });
  expect(at({ kind: 'reconnecting', reason: 'server' })).toMatchObject({ word: 'Reconnecting', sentence: words });
  const held: Snapshot = { ...snapshot, phase: 'paused', isStopped: true };
  expect(at({ kind: 'computing' }, { snapshot: held })).toMatchObject({ word: 'Paused', sentence: words });
  expect(at({ kind: 'joined' }, { run: { ...run, name: 'second' } }).sentence).not.toMatch(/changes to/);
});

test('who holds a run up is said as it is: its operator, its numbers, or a server that cannot save', () => {
  const sentenceOf = (held: Partial<Snapshot>): string =>
    headlineOf({
      ...INITIAL_STATE,
      phase: { kind: 'computing' },
      snapshot: { donors: [] as Snapshot['donors'], phase: 'paused', ...held } as Snapshot,
    }).sentence;
  expect(sentenceOf({})).toBe('The operator has paused the run. Your GPU rests until it goes on.');
  expect(sentenceOf({ isStopped: true })).toMatch(/^The operator has stopped/);
  expect(sentenceOf({ hasDiverged: true })).toMatch(/numbers have gone wrong/);
  expect(sentenceOf({ cannotSave: true })).toBe(
    'The server can’t save right now, so the run waits. Your GPU rests until it can.',
  );
});

test('who is in no plan and owns something stays on standby, and says how much it keeps until it is no more', () => {
  const [me, other] = [peerId('me'), peerId('other')];
  const meet = (...keepers: PeerId[][]): ServerMessage => ({
    ...{ type: 'meet', epoch: 0, round: 3, attempt: 1, steps: [2], groups: [] },
    owners: {
      ranges: keepers.map((keep, i) => ({ block: 'head', range: [64_000 * i, 64_000 * (i + 1)], have: [other], keep })),
    },
  });
  const say = (state: DonorState, message: ServerMessage) => nextState(state, { type: 'serverSaid', message });
  const owner = say(
    { ...INITIAL_STATE, me, phase: { kind: 'spare', finished: false, why: 'noGain' } },
    meet([me, other], [other, me], [other]),
  );
  // 12 bytes for each of 128,000 elements.
  expect(headlineOf(owner)).toMatchObject({
    word: 'Standby',
    sentence: expect.stringMatching(/^Another GPU wouldn’t .* keeps 1\.5 MiB of it\.$/),
  });
  expect(say(owner, { type: 'meetingOver', epoch: 0, round: 3, end: 9 })).toBe(owner);
  expect(stopSentence(owner, false)).toMatch(/^Your GPU rests while/);
  expect(stopSentence({ ...owner, ownedBytes: 0 }, false)).toMatch(/^Nothing runs here while/);
  expect(headlineOf(say(owner, meet([other]))).sentence).not.toMatch(/keeps/);
  expect(say(owner, { type: 'standby', state: 'paused' }).ownedBytes).toBe(0);
});

test('who trains alone leaves nothing to others, and who comes first is made no room by any', () => {
  const computing = (count: number): DonorState => ({
    ...{ ...INITIAL_STATE, phase: { kind: 'computing' }, pending: 'leave' },
    snapshot: { donors: Array.from({ length: count }, () => ({ state: 'computing' })) } as unknown as Snapshot,
  });
  expect([pendingSentence(computing(1)), leaveNowSentence(computing(1))].join(' ')).not.toMatch(/others|Handing/);
  expect(pendingSentence(computing(2))).toMatch(/^Handing over/);
  expect(leaveNowSentence(computing(2))).toMatch(/others/);
  const spare: DonorState = { ...computing(2), phase: { kind: 'spare', finished: false, why: 'noGain' } };
  expect([pendingSentence(spare), leaveNowSentence(spare)].join(' ')).not.toMatch(/others|Handing/);
  const joined = (count: number) =>
    headlineOf({ ...computing(count), phase: { kind: 'joined' }, pending: null }).sentence;
  expect(joined(0)).not.toMatch(/others/);
  expect(joined(1)).toMatch(/The others make room/);
});
