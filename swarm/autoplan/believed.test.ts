import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type PeerId, peerId } from '../base.ts';
import { evaluationAllowedMs, quietMs, stepAllowedMs } from '../coordinator/deadlines.ts';
import type { Predicted } from '../coordinator/events.ts';
import { NO_LIMITS } from '../limits.ts';
import type { LinkReport } from '../messages/profile.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { CONFIG, profile } from '../testing/plannedRun.ts';
import { ALONE_FACTOR } from './believed.ts';
import { type KnownDonor, knownDonor, withLinks } from './knownDonors.ts';
import { UNMEASURED_LINK } from './lines.ts';
import { predictedOf } from './predicting.ts';
import { beginReplanning } from './replanner.ts';

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(peerId) as [PeerId, PeerId, PeerId, PeerId];

interface Words {
  readonly layerSeconds?: number;
  readonly speed?: number;
  readonly rate?: number | null;
  readonly address?: string;
  readonly isOwn?: boolean;
  readonly slowdown?: number;
  readonly links?: readonly LinkReport[];
  readonly upload?: number | null;
}

function donor(peer: PeerId, words: Words = {}): KnownDonor {
  const { layerSeconds = 0.01, speed = 1, rate = null, links = [], upload = null } = words;
  const limits = { ...NO_LIMITS, speed, uploadBytesPerSecond: rate, downloadBytesPerSecond: rate };
  const admitted = {
    ...{ peer, limits, profile: profile(layerSeconds), rememberedAs: null, remembered: null, hasHalves: false },
    ...{ address: words.address ?? peer, isOwn: words.isOwn ?? false },
  };
  const known = { ...knownDonor(CONFIG, admitted), uploadBytesPerSecond: upload, slowdown: words.slowdown ?? 1 };
  return withLinks(known, links);
}

const planOf = (...peers: PeerId[]): Plan => equalSplit(acceptedModel(CONFIG), CONFIG.batch.samples, peers, {});
const way = (peer: PeerId, roundTripMs: number | null, sent: number | null, heard?: number): LinkReport => ({
  ...{ peer, route: 'direct', roundTripMs, bytesPerSecond: sent },
  ...(heard !== undefined && { receivedBytesPerSecond: heard }),
});
/** A plan of all of them, which the first one has to get from the others. */
function predicted(...donors: readonly KnownDonor[]): Predicted {
  const peers = donors.map(({ peer }) => peer);
  return predictedOf({ ...beginReplanning(CONFIG), donors }, planOf(...peers), planOf(...peers.toReversed()));
}
const NO_STEP = { slowestMs: null, fastestMs: null };
const QUICK = { slowestMs: 1_000, fastestMs: 1_000 };
const deadlines = (told: Predicted): number[] => [
  stepAllowedMs(NO_STEP, told),
  stepAllowedMs(QUICK, told),
  evaluationAllowedMs(NO_STEP, told, 1),
  quietMs(NO_STEP, told),
  quietMs(QUICK, told),
];

const seconds = fc.oneof(fc.constantFrom(1e-6, 1, 900), fc.double({ min: 1e-6, max: 3_600, noNaN: true }));
const rates = fc.option(fc.oneof(fc.constantFrom(1, 10_000, 1e12), fc.double({ min: 1, max: 1e9, noNaN: true })));
const link = (peer: PeerId) =>
  fc
    .tuple(fc.option(fc.constantFrom(0, 80, 1e9)), rates, fc.option(fc.constantFrom(1, 1e6), { nil: undefined }))
    .map(([trip, sent, heard]) => way(peer, trip, sent, heard));
const anyWords = fc.record({
  ...{ layerSeconds: seconds, speed: fc.constantFrom(0.05, 1), rate: rates.map((rate) => rate && Math.max(1e4, rate)) },
  ...{ upload: rates, links: fc.tuple(link(a), link(b)), isFirst: fc.boolean() },
});

it('whatever one donor says of itself and of its links, no deadline is beyond a factor of what the next one says', () => {
  const honest = [a, b].map((peer) => donor(peer, { layerSeconds: 2, links: [way(peer === a ? b : a, 20, 6e6, 6e6)] }));
  // A layer there and back of 16 samples takes the honest ones 96 s; four layers, one after the other, and what is sent.
  const [worstMs, mostMs] = [1_000 * 4 * 96 * ALONE_FACTOR, 1_000 * 60];
  fc.assert(
    fc.property(anyWords, ({ isFirst, ...words }) => {
      const liar = donor(c, words);
      const told = predicted(...(isFirst ? [liar, ...honest] : [...honest, liar]));
      expect(told.stepMs).toBeLessThanOrEqual(worstMs + mostMs);
      expect(told.movingMs).toBeLessThanOrEqual(mostMs);
    }),
    { numRuns: 40 },
  );
});

it('where the others are quick all that one says leaves every deadline at its floor', () => {
  const honest = [a, b].map((peer) => donor(peer));
  const without = deadlines(predicted(...honest));
  fc.assert(
    fc.property(anyWords, ({ isFirst, ...words }) => {
      const liar = donor(c, words);
      const told = predicted(...(isFirst ? [liar, ...honest] : [...honest, liar]));
      expect(deadlines(told)).toEqual(without);
    }),
    { numRuns: 40 },
  );
});

it('what two networks say counts, and two donors of one network are one', () => {
  const slow = { layerSeconds: 60 };
  const [one, other] = [donor(c, { ...slow, address: 'x' }), donor(d, { ...slow, address: 'x' })];
  const agreeing = predicted(donor(a), donor(b), donor(c, slow), donor(d, slow)).stepMs ?? 0;
  const together = predicted(donor(a), donor(b), one, other).stepMs ?? 0;
  expect(agreeing).toBeGreaterThan(1_000 * 60);
  expect(together).toBeLessThan(agreeing / 100);
});

it('what this server opened or saw itself counts as it is', () => {
  const said = (words: Words) => predicted(donor(a), donor(b), donor(c, words)).stepMs ?? 0;
  const claimed = said({ layerSeconds: 1 });
  expect(said({ layerSeconds: 1, isOwn: true })).toBeGreaterThan(20 * claimed);
  expect(said({ slowdown: 100 })).toBeGreaterThan(20 * said({}));
});

it('alone in a run a donor lifts no ceiling', () => {
  const alone = (words: Words): number => stepAllowedMs(NO_STEP, predicted(donor(a, words)));
  expect(alone({ layerSeconds: 600 })).toBe(600_000);
  expect(alone({ layerSeconds: 600, isOwn: true })).toBe(3_600_000);
});

it('a slow link counts as far as both its ends say so', () => {
  const slow = UNMEASURED_LINK.bytesPerSecond / 1_000;
  const told = (...ends: readonly (readonly LinkReport[])[]) =>
    predicted(donor(a, { links: ends[0] ?? [] }), donor(b, { links: ends[1] ?? [] })).movingMs ?? 0;
  const unknown = told();
  const both = told([way(b, 20, slow, slow)], [way(a, 20, slow, slow)]);
  const one = told([], [way(a, 1e9, slow, 1)]);
  expect(both).toBeGreaterThan(100 * unknown);
  expect(one).toBeLessThanOrEqual(ALONE_FACTOR * unknown);
  expect(one).toBeGreaterThan(unknown);
});
