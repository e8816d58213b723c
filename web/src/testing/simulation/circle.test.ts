/**
 * Donors that keep their part of a step back and say that they wait for others, who honestly wait for them: they alone are
 * refused, nothing that was committed is given up, and the run goes on.
 */
import { describe, expect, test } from 'vitest';
import { at, below, type PeerId, type Random, seededRandom } from '../../../../swarm/base.ts';
import { decodeFrame } from '../../../../swarm/messages/frame.ts';
import type { PeerMessage } from '../../../../swarm/messages/messages.ts';
import { type Plan, peers } from '../../../../swarm/plan/plan.ts';
import { randomPlanFor } from '../../../../swarm/testing/randomPlan.ts';
import { type MakePlan, pipeline } from './plans.ts';
import { type Simulation, simulate } from './simulation.ts';
import type { Malice } from './tab.ts';

const STEPS = 8;
/** They turn hostile after so many commits, and hold back from this step on, or the next. */
const BEGINS_AFTER = 3;
const FIRST_HELD = 4;
const LIMIT_MS = 3_600_000;
/** Some deadlines; each attempt at a step has one at most. */
const LONGEST_PAUSE_MS = 300_000;
/** `npm test -- --long`. */
const SEEDS = process.env.SHOAL_LONG === '1' ? 100 : 1;

const TRICKS = ['keepsBack', 'takesNothing', 'reportsOnly', 'works'] as const;
type Trick = (typeof TRICKS)[number];

function stepOf(frame: ArrayBuffer): number {
  const decoded = decodeFrame(frame);
  return decoded.ok ? decoded.value.step : 0;
}

/** keepsBack: its tensors. takesNothing: it takes others' for lost. reportsOnly: it says that it is done. works: it says that it gets on. */
function maliceOf(trick: Trick, named: readonly PeerId[], random: Random): Malice {
  let done = 0;
  const from = FIRST_HELD + below(random, 2);
  const isKept = random() < 0.5 ? () => true : () => random() < 0.7;
  return {
    sends: (_to, frame) => trick === 'takesNothing' || stepOf(frame) < from || !isKept(),
    takes: (_from, frame) => trick !== 'takesNothing' || stepOf(frame) < from,
    says(message: PeerMessage) {
      if (message.type === 'fault') return null;
      if (message.type === 'report' && message.step >= from && trick !== 'reportsOnly') return null;
      if (message.type !== 'heartbeat' || !message.at || message.at.step < from) return message;
      done += 1;
      const waitsFor = trick === 'takesNothing' ? message.at.waitsFor : [...named];
      const said = { ...message.at, done: trick === 'works' ? done : 7, hasReported: false };
      return { ...message, at: { ...said, waitsFor } };
    },
  };
}

interface Attack {
  readonly seed: number;
  readonly trick: Trick;
  readonly hostile: number;
  readonly makePlan: MakePlan;
}

/** Before it nobody is looked at. */
const HARM_MS = 5_000;

/** Who was hostile, and who was refused. */
async function attacked({ seed, trick, hostile, makePlan }: Attack) {
  const random = seededRandom(seed);
  const bad = new Set<PeerId>();
  const refused: PeerId[] = [];
  const begin = (swarm: Simulation): void => {
    const { plan } = swarm.server.run.store;
    if (plan === null) return;
    const members = peers(plan);
    for (let count = 0; count < hostile; count++) {
      const [peer] = members.splice(below(random, members.length), 1);
      const tab = peer === undefined ? null : swarm.tabOf(peer);
      if (peer === undefined || tab === null) continue;
      bad.add(peer);
      const others = peers(plan).filter((other) => other !== peer);
      const named = random() < 0.3 ? others : [at(others, below(random, others.length))];
      tab.malice = maliceOf(trick, named, random);
    }
  };
  const ending = await simulate({
    ...{ seed, donors: 5, steps: STEPS, makePlan, checkpointEverySteps: 4, limitMs: LIMIT_MS },
    mischief(swarm, point) {
      const { commits } = swarm.server.run.store;
      if (bad.size === 0 && point === 'effect storeCommit' && commits.length === BEGINS_AFTER) begin(swarm);
    },
    onEffect: (effect) => {
      if (effect.type === 'refuse') refused.push(effect.peer);
    },
  });
  return { ending, refused, bad };
}

const anyPlan =
  (seed: number): MakePlan =>
  (model, samples, members) =>
    randomPlanFor(seededRandom(seed), model, samples, members, { recompute: 0, replicas: 1 });

const ordered =
  (schedule: Plan['schedule']): MakePlan =>
  (...of) => ({ ...pipeline(...of), schedule });

/** One in every so many attacks has two conspirators; some plans' orders follow messages. */
const PLANS: readonly (readonly [name: string, makePlan: (seed: number) => MakePlan, hostile: number])[] = [
  ['in a pipeline', () => pipeline, 1],
  ['in an eager order', () => ordered('eager'), 1],
  ['beside another one', () => pipeline, 2],
  ['in any plan', anyPlan, 1],
];

describe.each(PLANS)('a donor %s', (_name, makePlan, hostile) => {
  test.each(TRICKS)('[CO94] [CO95] [CO76] that %s goes, and nobody honest', { timeout: 3_600_000 }, async (trick) => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { ending, refused, bad } = await attacked({ seed, trick, hostile, makePlan: makePlan(seed) });
      const honest = refused.filter((peer) => !bad.has(peer));
      const { problems, longestPauseMs } = ending;
      expect({ seed, problems, honest }).toEqual({ seed, problems: [], honest: [] });
      // Who keeps back what nobody waits for harms nobody.
      if (longestPauseMs >= HARM_MS) expect(new Set(refused), `seed ${seed}`).toEqual(bad);
      expect(longestPauseMs, `seed ${seed}`).toBeLessThan(LONGEST_PAUSE_MS);
      // Two may have had both copies of a shard.
      if (hostile === 1) expect(ending.rollBacks, `seed ${seed}`).toEqual([]);
    }
  });
});
