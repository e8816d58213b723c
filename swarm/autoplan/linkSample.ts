/**
 * Which links are measured that no step uses. A plan can only be better than the one in force by links that it does not
 * have, so now and then a pair of donors that do not talk to each other is asked to, a quarter of a megabyte in all; each
 * donor once a minute at most, until it knows some links beside its own. Those of the plan come first: it is them that a
 * newcomer would talk to.
 */
import { at, type PeerId, seededRandom } from '../base.ts';
import type { Limits } from '../limits.ts';
import { PROBE_BYTES } from '../messages/frame.ts';

/** Between two probes of the swarm, and of one donor. */
const EVERY_MS = 1_000;
export const REST_MS = 60_000;
/** What was measured, or tried, so long ago is looked at anew. */
export const FRESH_MS = 600_000;
/** Links of a donor that are fresh: then it need not measure others. */
export const SAMPLE = 8;
/** Donors that are looked at for a partner, at a time. */
const MOST_LOOKED_AT = 32;

type Caps = Pick<Limits, 'uploadBytesPerSecond' | 'downloadBytesPerSecond'>;

/** Half of a cap is for the run, and a probe is done within a second. What a donor receives is about what it sends. */
export const hasRoom = ({ uploadBytesPerSecond, downloadBytesPerSecond }: Caps, sentBytesPerSecond: number): boolean =>
  [uploadBytesPerSecond, downloadBytesPerSecond].every(
    (cap) => cap === null || (sentBytesPerSecond <= cap / 2 && cap - sentBytesPerSecond >= PROBE_BYTES),
  );

/** When a link of one donor was measured, or tried. */
interface TriedLink {
  readonly peer: PeerId;
  readonly atMs: number;
}

/** What one donor knows of links. */
export interface LinksTried {
  readonly peer: PeerId;
  readonly tried: readonly TriedLink[];
  /** Its last probe: when, and with whom. */
  readonly probe: TriedLink | null;
}

/** Of the whole swarm. */
export interface Sampling {
  readonly nextMs: number | null;
  /** Probes so far: the seed of the next choice. */
  readonly probes: number;
}

export const NO_SAMPLING: Sampling = { nextMs: null, probes: 0 };

export const isProbeDue = ({ nextMs }: Sampling, nowMs: number): boolean => nextMs === null || nowMs >= nextMs;

export const nextSampling = ({ probes }: Sampling, isProbed: boolean, nowMs: number): Sampling => ({
  nextMs: nowMs + EVERY_MS,
  probes: probes + (isProbed ? 1 : 0),
});

/** By what the run sends, or by a probe; what is not fresh any more is forgotten. */
export const withTried = (tried: readonly TriedLink[], peer: PeerId, nowMs: number): TriedLink[] => [
  ...tried.filter((link) => link.peer !== peer && nowMs - link.atMs < FRESH_MS),
  { peer, atMs: nowMs },
];

/** Two who measure the link between them now; null: nobody has to. `able`: who may be asked. */
export function probePair(
  able: readonly LinksTried[],
  members: readonly PeerId[],
  { probes }: Sampling,
  nowMs: number,
): readonly [PeerId, PeerId] | null {
  const lastMs = ({ probe }: LinksTried): number => probe?.atMs ?? -Infinity;
  const rested = able.filter((one) => nowMs - lastMs(one) >= REST_MS).toSorted((a, b) => byTime(lastMs(a), lastMs(b)));
  for (const one of rested.slice(0, MOST_LOOKED_AT)) {
    const known = one.tried.filter(({ atMs }) => nowMs - atMs < FRESH_MS).map(({ peer }) => peer);
    if (known.length >= SAMPLE) continue;
    const strangers = rested.filter((other) => other !== one && !known.includes(other.peer));
    const inPlan = strangers.filter(({ peer }) => members.includes(peer));
    const from = inPlan.length > 0 ? inPlan : strangers;
    if (from.length === 0) continue;
    return [one.peer, at(from, Math.floor(seededRandom(probes)() * from.length)).peer];
  }
  return null;
}

/** Orders times, earliest first. Equal ones are compared first: "never" is -Infinity, and its difference to itself is NaN. */
const byTime = (a: number, b: number): number => (a === b ? 0 : a - b);
