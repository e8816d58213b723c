import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import type { ServerMessage, SpareReason } from '../../../swarm/messages/messages.ts';
import { REFUSAL_REASONS } from '../../../swarm/messages/refusals.ts';
import type { RunFacts } from '../../../swarm/messages/runFacts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import { UNKNOWN_SURROUNDINGS } from './conditions.ts';
import { type DonorEvent, nextState } from './events.ts';
import { type DonorPhase, isMember, mayDonate } from './phase.ts';
import { DEFAULT_PREFERENCES } from './preferences.ts';
import { failureText, headlineOf } from './sentences.ts';
import {
  computeOfTab,
  contributedTokens,
  type DonorState,
  due,
  hasNothingToPause,
  INITIAL_STATE,
  isBarred,
} from './state.ts';

const ADAPTER = { vendor: 'v', architecture: 'a', description: '', software: false, browser: 'b' };
type Entry = Snapshot['donors'][number];

function snapshot(own: Partial<Entry>, rest: Partial<Snapshot> = {}): DonorEvent {
  const entry: Entry = { peer: peerId('me'), adapter: ADAPTER, state: 'computing', stages: [], tokens: 0, ...own };
  return {
    type: 'serverSaid',
    message: {
      type: 'snapshot',
      snapshot: {
        run: 'r',
        phase: 'training',
        sentence: '',
        generation: 0,
        epoch: 1,
        committedSteps: 1,
        steps: 9,
        loss: 2,
        evaluationLoss: null,
        tokensPerSecond: null,
        donors: [entry],
        ...rest,
      },
    },
  };
}

const said = (message: Partial<ServerMessage>): DonorEvent => ({
  type: 'serverSaid',
  message: message as ServerMessage, // only what the state looks at
});
const RUN = { name: 'r', train: { steps: 9, globalBatchSize: 2, sequenceLength: 8 }, data: {} } as RunFacts; // as far as it is shown
const WELCOME = said({ type: 'welcome', peer: peerId('me'), run: RUN, heard: null });
const ADMITTED: DonorEvent = { type: 'admitted' };
const START = said({ type: 'start', epoch: 1, step: 0 });
const PREPARE = said({ type: 'prepare', epoch: 1 });
const standby = (state: 'paused' | 'left' | 'spare' | 'finished'): DonorEvent => said({ type: 'standby', state });
const asked = (what: 'pause' | 'resume' | 'leave'): DonorEvent =>
  what === 'pause' ? { type: 'asked', what, rest: { kind: 'button' } } : { type: 'asked', what };
const CLICK: DonorEvent = { type: 'donateClicked' };
const OPENED: DonorEvent = { type: 'gpuOpened', adapter: ADAPTER };
const CLOSED: DonorEvent = { type: 'signalingChanged', state: { kind: 'closed', pauseMs: 500, isKept: true } };

/** Every welcome here is followed by a check that is passed. */
const reached = (...events: readonly DonorEvent[]): DonorState =>
  events.flatMap((event) => (event === WELCOME ? [event, ADMITTED] : [event])).reduce(nextState, INITIAL_STATE);
const kind = (...events: readonly DonorEvent[]): DonorPhase['kind'] => reached(...events).phase.kind;

describe('a donor’s state', () => {
  test('[MP1] knows how this tab computes: with halves where the run asks for them and the adapter has them', () => {
    const halving: DonorEvent = { type: 'gpuOpened', adapter: { ...ADAPTER, halves: true } };
    const asking = said({ type: 'welcome', peer: peerId('me'), run: { ...RUN, compute: 'f16' }, heard: null });
    expect(computeOfTab(reached(CLICK, halving))).toBeNull();
    expect([WELCOME, asking].map((welcome) => computeOfTab(reached(CLICK, OPENED, welcome)))).toEqual(['f32', 'f32']);
    expect([WELCOME, asking].map((welcome) => computeOfTab(reached(CLICK, halving, welcome)))).toEqual(['f32', 'f16']);
  });

  test('goes from the click over GPU and server to computing', () => {
    expect(kind()).toBe('idle');
    expect(reached(CLICK).phase).toEqual({ kind: 'starting', waitsFor: 'gpu' });
    expect(reached(CLICK, OPENED).phase).toEqual({ kind: 'starting', waitsFor: 'server' });
    expect(kind(CLICK, OPENED, WELCOME)).toBe('joined');
    expect(kind(CLICK, OPENED, WELCOME, PREPARE)).toBe('joined');
    expect(kind(CLICK, OPENED, WELCOME, PREPARE, START)).toBe('computing');
  });

  test('only a tab that does nothing may be started', () => {
    const phases = [reached(), reached(CLICK), reached(CLICK, OPENED, WELCOME), reached(CLICK, CLOSED)];
    expect(phases.map(mayDonate)).toEqual([true, false, false, false]);
    expect(mayDonate(reached(CLICK, OPENED, WELCOME, asked('leave'), standby('left')))).toBe(true);
  });

  test('a pause is one when the server has confirmed it, not before', () => {
    const pausing = reached(CLICK, WELCOME, START, asked('pause'));
    expect([pausing.phase.kind, pausing.pending]).toEqual(['computing', 'pause']);
    expect(headlineOf(pausing).word).toBe('Training');
    const paused = nextState(pausing, standby('paused'));
    expect([paused.phase.kind, paused.pending]).toEqual(['paused', null]);
  });

  test('words of a plan on their way do not wake who has paused', () => {
    expect(kind(CLICK, WELCOME, START, asked('pause'), standby('paused'), said({ type: 'abandon' }))).toBe('paused');
  });

  test('a resume ends with a plan, with a place among the spares, or with the snapshot’s word', () => {
    const resuming = [CLICK, WELCOME, START, asked('pause'), standby('paused'), asked('resume')];
    expect(reached(...resuming).pending).toBe('resume');
    expect(reached(...resuming, snapshot({ state: 'paused' })).pending).toBe('resume');
    for (const [event, phase] of [
      [PREPARE, 'joined'],
      [standby('spare'), 'spare'],
      [snapshot({ state: 'joining' }), 'joined'],
    ] as const) {
      const state = reached(...resuming, event);
      expect([state.phase.kind, state.pending]).toEqual([phase, null]);
    }
  });

  test('a donor whose plan has it compute nothing keeps state, and says so', () => {
    const stage = { stage: 0, layers: [0, 1] as [number, number] };
    const keeper = reached(CLICK, WELCOME, START, snapshot({ stages: [] }));
    expect(headlineOf(keeper)).toMatchObject({
      word: 'Training',
      sentence: expect.stringMatching(/keeps a part/),
    });
    expect(headlineOf(nextState(keeper, snapshot({ stages: [stage] }))).sentence).not.toMatch(/keeps a part/);
  });

  test('a spare donor is told why, as soon as the server knows it', () => {
    const spare = (why?: SpareReason): DonorEvent =>
      said({ type: 'standby', state: 'spare', ...(why === undefined ? {} : { why }) });
    const looking = reached(CLICK, WELCOME, snapshot({ state: 'spare' }));
    expect(headlineOf(looking)).toMatchObject({
      word: 'Standby',
      sentence: expect.stringMatching(/^Looking for a place/),
    });
    for (const [why, sentence] of [
      ['full', /^Every place is taken/],
      ['noGain', /^Another GPU wouldn’t speed this up yet/],
      ['mustWait', /came and went several times/],
    ] as const) {
      const told = nextState(looking, spare(why));
      expect(headlineOf(told).sentence).toMatch(sentence);
      expect(headlineOf(nextState(told, snapshot({ state: 'spare' }))).sentence).toMatch(sentence);
    }
    const queued = nextState(looking, said({ type: 'standby', state: 'spare', why: 'queued', place: 3 }));
    expect(headlineOf(queued).sentence).toMatch(/^Looking for a place .*You are number 3 in the queue\.$/);
    expect(headlineOf(nextState(queued, spare('full'))).sentence).not.toMatch(/number/);
  });

  test('who had a part and loses it to a better plan is told so, and thanked', () => {
    const displaced = reached(CLICK, WELCOME, START, snapshot({ tokens: 40 }));
    const told = nextState(displaced, said({ type: 'standby', state: 'spare', why: 'noGain' }));
    expect(headlineOf(told)).toMatchObject({
      word: 'Standby',
      sentence: expect.stringMatching(/quicker without your GPU/),
    });
  });

  test('a run that its operator holds up is paused for everyone, stopped or not', () => {
    for (const held of [{}, { isStopped: true }, { hasDiverged: true }]) {
      const state = reached(CLICK, WELCOME, standby('finished'));
      const shown = snapshot({ state: 'spare' });
      if (shown.type !== 'serverSaid' || shown.message.type !== 'snapshot') throw new Error('a snapshot');
      const message = { ...shown.message, snapshot: { ...shown.message.snapshot, phase: 'paused' as const, ...held } };
      expect(headlineOf(nextState(state, { type: 'serverSaid', message })).word).toBe('Paused');
    }
  });

  test('one that paused is told of the end, and asks for nothing more', () => {
    const paused = reached(CLICK, WELCOME, START, asked('pause'), standby('paused'), standby('finished'));
    const end = nextState(paused, snapshot({ state: 'paused' }, { phase: 'finished' }));
    expect([headlineOf(end).word, due(end), hasNothingToPause(end)]).toEqual(['Finished', null, true]);
  });

  test('who is let go by the operator is told that, and whoever left by their own button what became of their part', () => {
    const told = (...before: DonorEvent[]) => headlineOf(reached(...before, standby('left'))).sentence;
    expect(told(CLICK, WELCOME, START)).toMatch(/^The operator has let your GPU go\. Your part is in safe hands/);
    expect(told(CLICK, WELCOME, START, asked('leave'))).toMatch(/^You’ve left\. Your part is in safe hands/);
    // On standby there was none.
    expect(told(CLICK, WELCOME, standby('spare'), asked('leave'))).toBe('You’ve left. Your GPU is free.');
    expect(told(CLICK, WELCOME, standby('spare'))).toBe('The operator has let your GPU go. Your GPU is free.');
  });

  test('while the operator holds the run up there is nothing to pause; when it goes on there is', () => {
    const held = reached(CLICK, OPENED, WELCOME, ADMITTED, PREPARE, START, snapshot({}, { phase: 'paused' }));
    expect(hasNothingToPause(held)).toBe(true);
    expect(hasNothingToPause(nextState(held, snapshot({})))).toBe(false);
  });

  test('who paused stays paused over a lost connection', () => {
    const again = reached(CLICK, WELCOME, START, asked('pause'), standby('paused'), CLOSED, WELCOME);
    expect([again.rest, again.pending]).toEqual([{ kind: 'button' }, 'pause']);
    expect(reached(CLICK, WELCOME, asked('pause'), asked('resume'), CLOSED, WELCOME).rest).toBeNull();
  });

  test('a pause that crosses with a place among the spares stays one', () => {
    const spare = reached(CLICK, WELCOME, START, asked('pause'), standby('spare'));
    expect([spare.pending, due(spare)]).toEqual(['pause', null]);
    const paused = nextState(spare, standby('paused'));
    expect([paused.phase.kind, paused.rest, due(paused)]).toEqual(['paused', { kind: 'button' }, null]);
  });

  test('a button that was pressed says nothing while nobody is there to confirm it', () => {
    expect(headlineOf(reached(CLICK, WELCOME, START, asked('pause'), CLOSED)).word).toBe('Reconnecting');
  });

  test('contributed tokens add up over connections, and start over with a new visit', () => {
    const first = [CLICK, WELCOME, START, snapshot({ tokens: 100 })];
    const again = said({ type: 'welcome', peer: peerId('again'), run: RUN, heard: null });
    expect(contributedTokens(reached(...first, CLOSED, again))).toBe(100);
    expect(contributedTokens(reached(...first, CLOSED, again, snapshot({ peer: peerId('again'), tokens: 7 })))).toBe(
      107,
    );
    // What another run was given is not this one's.
    const next = said({ type: 'welcome', peer: peerId('again'), run: { ...RUN, name: 'another' }, heard: null });
    expect(contributedTokens(reached(...first, CLOSED, next))).toBe(0);
    // Under its old name the server counts it on.
    expect(contributedTokens(reached(...first, CLOSED, WELCOME))).toBe(100);
    expect(contributedTokens(reached(...first, CLOSED, WELCOME, snapshot({ tokens: 107 })))).toBe(107);
    expect(contributedTokens(reached(...first, CLOSED, WELCOME, standby('left'), CLICK))).toBe(0);
  });

  test('[RE80] goes on where it was when the same conversation goes on', () => {
    const still = said({ type: 'welcome', peer: peerId('me'), run: RUN, heard: 7 });
    const before = reached(CLICK, WELCOME, START, snapshot({ tokens: 100 }), asked('pause'));
    const after = [CLOSED, still].reduce(nextState, before);
    expect(after).toMatchObject({ phase: { kind: 'joined' }, pending: 'pause', snapshot: before.snapshot });
    expect(nextState(after, START).phase.kind).toBe('computing');
  });

  test('the snapshot mends a missed word', () => {
    expect(kind(CLICK, WELCOME, START, snapshot({ state: 'spare' }))).toBe('spare');
    expect(kind(CLICK, WELCOME, START, snapshot({ state: 'paused' }))).toBe('paused');
    expect(kind(CLICK, WELCOME, START, snapshot({ peer: peerId('other'), state: 'paused' }))).toBe('computing');
  });

  test('after the end nothing changes the phase but a click', () => {
    const left = [CLICK, WELCOME, START, asked('leave'), standby('left')];
    for (const event of [PREPARE, START, snapshot({ state: 'computing' })]) expect(kind(...left, event)).toBe('left');
  });

  test('a refusal and a failure say why', () => {
    const refused = reached(CLICK, {
      type: 'signalingChanged',
      state: { kind: 'refused', reason: 'blocked', detail: 'd', retrySeconds: null },
    });
    expect(refused.phase).toEqual({ kind: 'failed', reason: 'blocked', detail: 'd' });
    expect(mayDonate(refused)).toBe(true);
    expect(headlineOf(refused).sentence).toContain('has blocked this network address');
  });

  test('[SV32] a refusal for now counts down to the next try, and forgets no wish of the person', () => {
    const postponed = reached(CLICK, OPENED, WELCOME, ADMITTED, asked('pause'), {
      type: 'signalingChanged',
      state: { kind: 'refused', reason: 'serverFull', detail: 'd', retrySeconds: 42 },
    });
    expect(headlineOf(postponed)).toMatchObject({
      word: 'Standby',
      sentence: 'The server is full: it has as many donors as it can hold. This page tries again by itself in 42 s.',
    });
    // It goes on over a reload too: nobody has to press the button again.
    expect(mayDonate(postponed)).toBe(false);
    const later = nextState(postponed, { type: 'countedDown', secondsLeft: 41 });
    expect(headlineOf(later).sentence).toContain('in 41 s');
    const again = [{ type: 'askedAgain' } as const, OPENED, WELCOME, ADMITTED].reduce(nextState, later);
    expect(again).toMatchObject({ phase: { kind: 'joined' }, pending: 'pause', rest: { kind: 'button' } });
    expect(nextState(again, { type: 'countedDown', secondsLeft: 40 }).phase).toEqual(again.phase);
  });

  test('every failure has a sentence; those of the page itself also say what to do', () => {
    for (const reason of REFUSAL_REASONS) expect(failureText(reason).what).toMatch(/\.$/);
    for (const reason of ['insecure', 'noWebGpu', 'noWebRtc', 'noAdapter', 'deviceLost', 'internal'] as const) {
      expect(failureText(reason).what).toMatch(/\.$/);
      expect(failureText(reason).advice).toMatch(/\.$/);
    }
  });
});

const ONLY_VISIBLE: DonorEvent = {
  type: 'learned',
  now: { preferences: { ...DEFAULT_PREFERENCES, onlyVisible: true } },
};
const seen = (isVisible: boolean): DonorEvent => ({
  type: 'surroundingsSeen',
  surroundings: { ...UNKNOWN_SURROUNDINGS, hidden: !isVisible },
});
/** What the page asks when it follows its conditions. */
const conditionsFollowed = (state: DonorState): DonorState => {
  const what = due(state);
  return what === 'pause' || what === 'resume' ? nextState(state, { type: 'asked', what }) : state;
};

describe('what stops a donor', () => {
  const AT_WORK = [CLICK, WELCOME, START];

  test('a snooze is a pause with an end, and is forgotten with the resume', () => {
    const snoozed: DonorEvent = { type: 'asked', what: 'pause', rest: { kind: 'snooze', untilMs: 60_000 } };
    const resting = reached(...AT_WORK, snoozed, standby('paused'));
    expect(headlineOf(resting)).toMatchObject({
      word: 'Paused',
      sentence: expect.stringMatching(/^Your GPU rests until /),
    });
    expect(due(resting)).toBeNull();
    expect(nextState(resting, asked('resume'))).toMatchObject({ rest: null, pending: 'resume' });
  });

  test('pausing at once ends the connection too; to resume is to start, and what was given stays given', () => {
    const stopped = reached(...AT_WORK, snapshot({ tokens: 40 }), { type: 'pausedAtOnce', rest: { kind: 'button' } });
    expect([stopped.phase, stopped.pending, isMember(stopped)]).toEqual([
      { kind: 'paused', connected: false },
      null,
      false,
    ]);
    expect([mayDonate(stopped), due(stopped)]).toEqual([false, null]);
    const again = [{ type: 'resumedAfresh' } as const, OPENED, WELCOME, ADMITTED].reduce(nextState, stopped);
    expect([again.phase.kind, again.rest, contributedTokens(again)]).toEqual(['joined', null, 40]);
  });

  test('a tab that computes only when it is seen asks for a pause and for the resume by itself', () => {
    expect(due(reached(...AT_WORK, seen(false)))).toBeNull();
    const hidden = reached(...AT_WORK, ONLY_VISIBLE, seen(false));
    expect(due(hidden)).toBe('pause');
    const paused = nextState(conditionsFollowed(hidden), standby('paused'));
    expect([paused.phase.kind, due(paused)]).toEqual(['paused', null]);
    expect(headlineOf(paused).sentence).toContain('isn’t on screen');
    const back = nextState(paused, seen(true));
    expect(due(back)).toBe('resume');
    expect(due(conditionsFollowed(back))).toBeNull();
  });

  test('a tab that comes back before its pause is confirmed takes it back', () => {
    const pausing = conditionsFollowed(reached(...AT_WORK, ONLY_VISIBLE, seen(false)));
    expect(due(nextState(pausing, seen(true)))).toBe('resume');
  });

  test('a person’s pause outlasts what the page sees', () => {
    const state = reached(...AT_WORK, ONLY_VISIBLE, asked('pause'), standby('paused'), seen(false), seen(true));
    expect(due(state)).toBeNull();
  });

  test('who leaves, has finished or is no member is asked for nothing', () => {
    expect(due(reached(...AT_WORK, asked('leave'), ONLY_VISIBLE, seen(false)))).toBeNull();
    expect(due(reached(...AT_WORK, standby('finished'), ONLY_VISIBLE, seen(false)))).toBeNull();
    expect(due(reached(CLICK, ONLY_VISIBLE, seen(false)))).toBeNull();
    // It is asked as soon as it is one.
    expect(reached(CLICK, ONLY_VISIBLE, seen(false), WELCOME).pending).toBe('pause');
  });

  test('a phone is barred until its owner allows it', () => {
    const machine = { ...INITIAL_STATE.machine, isPhone: true };
    const phone = reached({ type: 'learned', now: { machine } });
    expect(isBarred(phone)).toBe(true);
    const preferences = { ...DEFAULT_PREFERENCES, phone: true };
    expect(isBarred(nextState(phone, { type: 'learned', now: { preferences } }))).toBe(false);
  });
});

describe('what a visit leaves to the next one', () => {
  test('limits, preferences and what the browser is stay; the visit itself goes', () => {
    const before = reached(
      CLICK,
      WELCOME,
      START,
      ONLY_VISIBLE,
      { type: 'learned', now: { otherTabs: 2 } },
      standby('left'),
    );
    const next = nextState(before, CLICK);
    expect(next).toMatchObject({
      otherTabs: 2,
      preferences: { onlyVisible: true },
      visit: 2,
      snapshot: null,
      me: null,
    });
  });

  test('the trace of a step stays one object until the next step’s', () => {
    const lastStep = { epoch: 1, step: 0, seconds: 2, bytes: 100, spans: [], waits: [] };
    const status: DonorStatus = {
      ...{
        activity: 'waiting',
        step: 0,
        stages: [],
        stageCount: 0,
        gpuMemoryBytes: 0,
        droppedFrames: 0,
        answeredRows: 0,
        busyShare: null,
      },
      ...{
        bytesSent: 0,
        bytesReceived: 0,
        microBatches: { done: 0, all: 0 },
        waitsFor: null,
        rates: { sent: 0, received: 0, mostReceived: 0 },
        lastStep,
      },
      direction: null,
    };
    const showed = (step: number): DonorEvent => ({
      type: 'workerShowed',
      status: { ...status, lastStep: { ...lastStep, step } },
    });
    const first = reached(CLICK, showed(0));
    const second = nextState(first, showed(0));
    expect(first.minuteBytes).toBe(3_000);
    expect(second.status?.lastStep).toBe(first.status?.lastStep);
    expect(nextState(second, showed(1)).status?.lastStep).not.toBe(first.status?.lastStep);
  });
});
