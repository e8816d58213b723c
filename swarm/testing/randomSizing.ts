/**
 * Sizing problems of every shape the contract allows, from a seeded generator: curves with and without tables, smooth and
 * jagged ones, hidden and open communication, peers too small for an even share, for the state, or for a single sample.
 * For tests.
 */
import { arrayOf, below, type Random, totalOf } from '../base.ts';
import type { SizingProblem } from '../planner/sizing.ts';

export interface Shape {
  readonly peers: number;
  readonly globalBatch: number;
  /** The state, as a part of the room that the smallest micro-batches leave; above 1 it does not fit. */
  readonly tightness: number;
  /** Curves that fall here and there, as measured ones may. */
  readonly isJagged: boolean;
}

type Peer = SizingProblem['peers'][number];

/** Numbers as people write them, so that a sum can meet its limit exactly. */
const tenths = (value: number): number => Math.round(value * 10) / 10;
export function randomSizing(random: Random, { peers: count, globalBatch, tightness, isJagged }: Shape): SizingProblem {
  const isHidden = random() < 0.4;
  const peers = arrayOf(count, (index) => randomPeer(random, index, isJagged));
  const common = {
    globalBatch,
    layers: 1 + below(random, 40),
    usableFraction: tenths(0.5 + random() / 2),
    communicationGiB: tenths(random() * 2),
    extraMicroBatchMs: random() < 0.3 ? 0 : below(random, 12),
    allGatherMs: isHidden ? 1 : below(random, 120),
    reduceScatterMs: isHidden ? 1 : below(random, 120),
    unevenFactor: 1 + below(random, 3) / 4,
    recompute: random() < 0.6,
  };
  const room = totalOf(
    peers.map(({ memoryGiB, activationGiB: { table } }) => common.usableFraction * memoryGiB - (table[0] ?? 0)),
    (own) => Math.max(0, own - common.communicationGiB),
  );
  return { ...common, stateGiB: Math.round(room * tightness * 100) / 100, peers };
}

function randomPeer(random: Random, index: number, isJagged: boolean): Peer {
  const pace = Math.exp(random() * 3);
  const curve = (factor: number): Peer['forwardMs'] => {
    const slope = tenths(pace * factor);
    const intercept = tenths(pace * random());
    const entries = random() < 0.5 ? 0 : below(random, 8);
    const noise = () => 1 + (isJagged ? random() - 0.5 : 0);
    return { table: list(entries, (m) => tenths((slope * m + intercept) * noise())), slope, intercept };
  };
  const own = tenths(0.1 + random());
  const sample = tenths(random());
  const wobble = () => (isJagged ? random() * 0.8 : 0);
  return {
    id: `p${index}`,
    memoryGiB: tenths(random() < 0.1 ? random() * 4 : 3 + Math.exp(random() * 3)),
    forwardMs: curve(1),
    backwardMs: curve(2),
    activationGiB: { table: list(1 + below(random, 7), (m) => tenths(own + sample * m + wobble())) },
  };
}

const list = (length: number, entry: (samples: number) => number): number[] =>
  arrayOf(length, (index) => entry(index + 1));
