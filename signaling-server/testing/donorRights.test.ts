/**
 * What a donor's words come to by how far it has come: who hears its signals and frames, and which word it is refused for.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NO_LIMITS } from '../../swarm/limits.ts';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { encodeEnvelope } from '../../swarm/messages/relay.ts';
import { CALL } from '../../swarm/messages/signal.ts';
import { FourStages, HELLO } from './fourStages.ts';
import { SCRIPTED_PROFILE, type ScriptedDonor } from './scriptedDonor.ts';

const stages = new FourStages();
beforeAll(() => stages.begin());
afterAll(() => stages.close());

/** How far who speaks has come. */
const SPEAKERS = {
  connected: () => stages.connected(),
  greeted: () => stages.greeted(),
  spare: () => stages.spare(),
  member: async () => stages.memberAt(0),
};
type Speaker = keyof typeof SPEAKERS;

/** Of the first of four stages. The embedding is tied: its two ends are neighbours, too. */
const LISTENERS = {
  ...{
    next: () => stages.memberAt(1),
    last: () => stages.memberAt(3),
    nonNeighbour: () => stages.memberAt(2),
    itself: () => stages.memberAt(0),
  },
};
type Listener = keyof typeof LISTENERS;
const MAY_REACH: Readonly<Record<Speaker, readonly Listener[]>> = {
  ...{ connected: [], greeted: [], spare: [], member: ['next', 'last'] },
};

describe('[WP41] what one donor sends another', () => {
  const cells = Object.keys(SPEAKERS).flatMap((from) =>
    Object.keys(LISTENERS).map((to) => [from as Speaker, to as Listener] as const),
  );

  test.each(cells)('a signal of one that is %s to %s', async (from, to) => {
    const [speaker, listener] = [await SPEAKERS[from](), LISTENERS[to]()];
    const before = signalsHeard(listener);
    speaker.say({ type: 'signal', to: listener.welcome.peer, epoch: stages.server.run.epoch, attempt: 0, data: CALL });
    await speaker.settled();
    await listener.settled();
    expect(signalsHeard(listener) - before).toBe(MAY_REACH[from].includes(to) ? 1 : 0);
    if (from !== 'member') speaker.leave();
  });

  test.each(cells)('a relayed frame of one that is %s to %s', async (from, to) => {
    const [speaker, listener] = [await SPEAKERS[from](), LISTENERS[to]()];
    const before = framesHeard(listener);
    speaker.sayRaw(encodeEnvelope('frame', listener.welcome.peer, Uint8Array.of(1)));
    await speaker.settled();
    await listener.settled();
    expect(framesHeard(listener) - before).toBe(MAY_REACH[from].includes(to) ? 1 : 0);
    if (from !== 'member') speaker.leave();
  });

  test('[WP41] one that is not admitted is told nobody’s name', async () => {
    const speaker = await stages.greeted();
    await stages.memberAt(0).until(() => stages.memberAt(0).received.at(-1)?.type === 'snapshot');
    await speaker.settled();
    const said = JSON.stringify(speaker.received);
    for (const { welcome } of stages.members) expect(said).not.toContain(welcome.peer);
    speaker.leave();
  });
});

const signalsHeard = (donor: ScriptedDonor): number => donor.heardCount('signal');
const framesHeard = ({ relayed }: ScriptedDonor): number => relayed.filter((bytes) => bytes[1] === 0).length;

type Outcome = 'refused' | 'kept';
type Newcomer = Exclude<Speaker, 'member'>;
type Word = readonly [name: string, word: () => PeerMessage, outcomes: Readonly<Record<Newcomer, Outcome>>];

/** Of a step that nobody was told to do. */
const unasked = () => ({ epoch: stages.server.run.epoch, step: stages.server.run.committedSteps + 1_000 });
const report = (): PeerMessage => ({
  ...{ type: 'report', losses: [], shards: [], bytesDirect: 0, bytesRelayed: 0, spans: [], ...unasked() },
});
const fault = (): PeerMessage => ({
  ...{ type: 'fault', reason: 'linkLost', detail: '', epoch: unasked().epoch },
  about: stages.memberAt(0).welcome.peer,
});

const NOBODYS = { connected: 'refused', greeted: 'refused', spare: 'refused' } as const;
const OF_ADMITTED = { ...NOBODYS, spare: 'kept' } as const;
const OF_GREETED = { ...OF_ADMITTED, greeted: 'kept' } as const;
const WORDS: readonly Word[] = [
  ['hello', () => HELLO, { ...NOBODYS, connected: 'kept' }],
  ['measured', () => ({ type: 'measured', profile: SCRIPTED_PROFILE }), OF_GREETED],
  ['heartbeat', () => ({ type: 'heartbeat' }), OF_GREETED],
  ['limits', () => ({ type: 'limits', limits: NO_LIMITS }), OF_GREETED],
  ['pause', () => ({ type: 'pause' }), OF_ADMITTED],
  ['resume', () => ({ type: 'resume' }), OF_ADMITTED],
  ['ready', () => ({ type: 'ready', epoch: unasked().epoch, memoryBytes: 1 }), NOBODYS],
  ['a report', report, NOBODYS],
  ['an evaluation', () => ({ type: 'evaluated', losses: [], ...unasked() }), NOBODYS],
  ['an upload', () => ({ type: 'uploaded', shards: [], ...unasked() }), NOBODYS],
  // Its donor may have been let go a moment ago.
  ['a fault', fault, OF_ADMITTED],
];

describe.each(WORDS)('[CO33] %s', (_, word, outcomes) => {
  test.each(Object.entries(outcomes) as [Newcomer, Outcome][])('of one that is %s: %s', async (who, outcome) => {
    const speaker = await SPEAKERS[who]();
    const before = stages.server.run.committedSteps;
    speaker.say(word());
    await speaker.settled();
    expect(speaker.received.some(({ type }) => type === 'refused')).toBe(outcome === 'refused');
    speaker.leave();
    await stages.server.run.until((run) => run.committedSteps > before + 3);
    expect(stages.server.run.snapshot().generation).toBe(0);
  });
});
