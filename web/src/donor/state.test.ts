import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { REFUSAL_REASONS, type ServerMessage, type Snapshot } from '../../../swarm/messages.ts';
import { failureText, headlineOf } from './sentences.ts';
import {
  contributedTokens,
  type DonorEvent,
  type DonorPhase,
  type DonorState,
  INITIAL_STATE,
  mayDonate,
  nextState,
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
const WELCOME = said({
  type: 'welcome',
  peer: peerId('me'),
  run: { name: 'r', train: { steps: 9 } } as Extract<ServerMessage, { type: 'welcome' }>['run'],
});
const ADMITTED: DonorEvent = { type: 'admitted' };
const START = said({ type: 'start', epoch: 1, step: 0 });
const PREPARE = said({ type: 'prepare', epoch: 1 });
const standby = (state: 'paused' | 'left' | 'spare' | 'finished'): DonorEvent => said({ type: 'standby', state });
const asked = (what: 'pause' | 'resume' | 'leave'): DonorEvent => ({ type: 'asked', what });
const CLICK: DonorEvent = { type: 'donateClicked' };
const OPENED: DonorEvent = { type: 'gpuOpened', adapter: ADAPTER };
const CLOSED: DonorEvent = { type: 'signalingChanged', state: { kind: 'closed', pauseMs: 500 } };

/** Every welcome here is followed by a check that is passed. */
const reached = (...events: readonly DonorEvent[]): DonorState =>
  events.flatMap((event) => (event === WELCOME ? [event, ADMITTED] : [event])).reduce(nextState, INITIAL_STATE);
const kind = (...events: readonly DonorEvent[]): DonorPhase['kind'] => reached(...events).phase.kind;

describe('a donor’s state', () => {
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
    expect(headlineOf(pausing).word).toBe('Pausing');
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

  test('who paused stays paused over a lost connection', () => {
    const again = reached(CLICK, WELCOME, START, asked('pause'), standby('paused'), CLOSED, WELCOME);
    expect([again.wantsPause, again.pending]).toEqual([true, 'pause']);
    expect(reached(CLICK, WELCOME, asked('pause'), asked('resume'), CLOSED, WELCOME).wantsPause).toBe(false);
  });

  test('contributed tokens add up over connections, and start over with a new visit', () => {
    const first = [CLICK, WELCOME, START, snapshot({ tokens: 100 })];
    expect(contributedTokens(reached(...first, CLOSED, WELCOME))).toBe(100);
    expect(contributedTokens(reached(...first, CLOSED, WELCOME, snapshot({ tokens: 7 })))).toBe(107);
    expect(contributedTokens(reached(...first, CLOSED, WELCOME, standby('left'), CLICK))).toBe(0);
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
      state: { kind: 'refused', reason: 'serverFull', detail: 'd' },
    });
    expect(refused.phase).toEqual({ kind: 'failed', reason: 'serverFull', detail: 'd' });
    expect(headlineOf(refused).sentence).toContain('as many donors');
  });

  test('every failure has a sentence; those of the page itself also say what to do', () => {
    for (const reason of REFUSAL_REASONS) expect(failureText(reason).what).toMatch(/\.$/);
    for (const reason of ['insecure', 'noWebGpu', 'noWebRtc', 'noAdapter', 'deviceLost', 'internal'] as const) {
      expect(failureText(reason).what).toMatch(/\.$/);
      expect(failureText(reason).advice).toMatch(/\.$/);
    }
  });
});
