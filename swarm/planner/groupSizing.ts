/**
 * Sizes the micro-batches of the peers of a group (Cephalo, ICS '25). Every peer i takes l_i micro-batches of m_i samples,
 * b_i = m_i·l_i ≥ 1, Σ b_i = batch; the slowest peer's time is to be least among all sizings that leave room for the
 * whole state.
 *
 * The question is turned round. Given a time T, each (peer, b) has one best micro-batch: the one of those
 * that end within T that leaves most room. A sizing within T exists exactly where the roomiest placement of the batch
 * (batchPlacement.ts) has room for the state, and more time never hurts: so T is found by bisection, and each sizing found
 * brings T down to the time that it really takes.
 */
import { at, evenRanges, float, invariant, type Result, refusal, success } from '../base.ts';
import { type Rooms, roomiestPlacement } from './batchPlacement.ts';
import { BYTE_GIB, type GroupCosts, microBatchesWithin, type PeerCosts, peerTimeMs, roomGiB } from './peerCosts.ts';

/** What the peers of a group share. */
interface Group extends GroupCosts {
  readonly globalBatch: number;
  readonly stateGiB: number;
}

/** The objective is exact up to this part of it; where a search was not exhaustive, no more than that is looked for. */
const PRECISION = 1e-10;
const ROUGH_PRECISION = 1e-4;

/** Micro-batches of each peer. */
export interface Sizing {
  readonly cuts: readonly Cut[];
  readonly objectiveMs: number;
}

/** How a peer's samples are cut: `count` micro-batches of `size` samples. */
interface Cut {
  readonly size: number;
  readonly count: number;
}

interface SizedGroup {
  /** In the order of the peers. */
  readonly sizing: Sizing;
  /** No sizing is faster than this; equal to the objective up to a billionth where the search was exhaustive. */
  readonly leastMs: number;
}

/** The best sizing of at least as many samples as peers, or a sentence with the GiB that are missing. */
export function sizeGroup(group: Group, peers: readonly PeerCosts[]): Result<SizedGroup> {
  invariant(peers.length > 0 && group.globalBatch >= peers.length, 'a group has a peer, and a sample for each');
  const roomiest = roomiestSizing(group, peers);
  const missing = missingGiB(group, peers, roomiest);
  if (roomiest === null || missing > BYTE_GIB) return refusal(shortage(group, peers, missing, roomiest !== null));
  const { sizing, leastMs } = fastest(group, peers, roomiest);
  return success({ sizing: quickest(group, peers, sizing), leastMs });
}

/** What each peer has left for state. */
export const roomsOf = (peers: readonly PeerCosts[], { cuts }: Sizing): number[] =>
  peers.map((peer, index) => Math.max(0, roomGiB(peer, at(cuts, index).size)));

/** The sizing that leaves most room in all, however long it takes; null where some peer can take no sample. */
function roomiestSizing(group: Group, peers: readonly PeerCosts[]): Sizing | null {
  const single = evenRanges(group.globalBatch, peers.length).map(([from, to]): Cut => ({ size: 1, count: to - from }));
  const smallest = peers.every((peer) => fits(peer, 1)) ? sizingOf(group, peers, single) : null;
  const isRoomiest = peers.every(
    ({ activationGiB: { slope, table } }) => slope >= 0 && table.every((own, _, [one = 0]) => own >= one),
  );
  if (isRoomiest) return smallest;
  return sizingWithin(group, peers, Number.POSITIVE_INFINITY).sizing ?? smallest;
}

/** What the roomiest sizing lacks for the state; where none places the batch, what one peer lacks for one sample. */
function missingGiB({ stateGiB }: Group, peers: readonly PeerCosts[], roomiest: Sizing | null): number {
  if (roomiest !== null) return stateGiB - total(roomsOf(peers, roomiest));
  return Math.min(...peers.filter((peer) => !fits(peer, 1)).map((peer) => -roomGiB(peer, 1)));
}

function shortage({ stateGiB }: Group, peers: readonly PeerCosts[], missing: number, isPlaced: boolean): string {
  const amount = `no sizing fits, ${Number(missing.toFixed(9))} GiB of usable memory are missing`;
  return isPlaced
    ? `${amount}: the state takes ${stateGiB}, these peers leave at most ${Number((stateGiB - missing).toFixed(9))} beside the smallest micro-batches`
    : `${amount}: so much more would let one more of ${peers.length} peers hold a single sample, and every peer takes part`;
}

function fastest(group: Group, peers: readonly PeerCosts[], roomiest: Sizing): SizedGroup {
  let leastMs = Math.max(...peers.map((peer) => oneMicroBatchMs(group, peer)));
  let low = leastMs;
  let precision = PRECISION;
  const attempt = (timeMs: number): Sizing | null => {
    const { sizing, isProven } = sizingWithin(group, peers, timeMs, group.stateGiB);
    if (sizing !== null) return sizing;
    low = timeMs;
    if (isProven) leastMs = timeMs;
    else precision = ROUGH_PRECISION;
    return null;
  };
  // From below: the more time, the more sizings there are to look at.
  let best: Sizing | null = null;
  for (let timeMs = low; best === null && timeMs > 0 && timeMs < roomiest.objectiveMs; timeMs *= 2)
    best = attempt(timeMs);
  let sizing = best ?? roomiest;
  while (sizing.objectiveMs - low > precision * sizing.objectiveMs) {
    sizing = attempt((low + sizing.objectiveMs) / 2) ?? sizing;
  }
  return { sizing, leastMs: Math.min(leastMs, sizing.objectiveMs) };
}

/** A peer's time for the fastest single micro-batch. */
function oneMicroBatchMs(group: Group, peer: PeerCosts): number {
  let least = Number.POSITIVE_INFINITY;
  for (let size = 1; size <= Math.min(peer.maxMicroBatch, group.globalBatch); size++)
    if (fits(peer, size)) least = Math.min(least, peerTimeMs(group, peer, size, 1));
  return least;
}

/** A sizing with so much room for state in which no peer takes longer; without `stateGiB`, the roomiest. */
function sizingWithin(
  group: Group,
  peers: readonly PeerCosts[],
  timeMs: number,
  stateGiB?: number,
): { readonly sizing: Sizing | null; readonly isProven: boolean } {
  // Everybody else takes at least one.
  const most = group.globalBatch - peers.length + 1;
  const offers = peers.map((peer) => offerWithin(group, peer, timeMs, most));
  const { placement, isProven } = roomiestPlacement(
    offers.map(({ rooms }) => rooms),
    group.globalBatch,
    stateGiB,
  );
  if (placement === null) return { sizing: null, isProven };
  const cuts = placement.samples.map((samples, peer): Cut => {
    const size = offers[peer]?.sizes[samples] ?? 1;
    return { size, count: samples / size };
  });
  return { sizing: sizingOf(group, peers, cuts), isProven };
}

/** For each number of samples that a peer ends within a time: its roomiest micro-batch, and the room left. */
interface Offer {
  readonly rooms: Rooms;
  readonly sizes: Int32Array;
}

function offerWithin(group: Group, peer: PeerCosts, timeMs: number, most: number): Offer {
  const measured = Math.max(peer.forwardMs.table.length, peer.backwardMs.table.length);
  const counts: number[] = [];
  let end = 0;
  for (let size = 1; size <= Math.min(peer.maxMicroBatch, most); size++) {
    const limit = fits(peer, size) ? Math.floor(most / size) : 0;
    const count = microBatchesWithin(group, peer, size, timeMs, limit);
    // On its line a peer only gets slower.
    if (count === 0 && limit > 0 && size > measured) break;
    counts.push(count);
    end = Math.max(end, size * count);
  }
  const rooms = new Float64Array(end + 1).fill(Number.NEGATIVE_INFINITY);
  const sizes = new Int32Array(end + 1);
  for (const [index, count] of counts.entries()) {
    const size = index + 1;
    const room = Math.max(0, roomGiB(peer, size));
    for (let samples = size; samples <= size * count; samples += size) {
      if (room <= float(rooms, samples)) continue;
      rooms[samples] = room;
      sizes[samples] = size;
    }
  }
  return { rooms, sizes };
}

/**
 * The same samples in fewer, larger micro-batches where there is room for them: of the cuts that make no peer slower,
 * the fastest ones first, and smaller micro-batches where they cost least time for the room that they leave.
 */
function quickest(group: Group, peers: readonly PeerCosts[], sizing: Sizing): Sizing {
  const choices = peers.map((peer, index) => {
    const { size, count } = at(sizing.cuts, index);
    return cutsOf(group, peer, size * count).filter(({ timeMs }) => timeMs <= sizing.objectiveMs);
  });
  const chosen = choices.map((cuts) => cuts.reduce((best, cut) => (cut.timeMs < best.timeMs ? cut : best)));
  let lacking = group.stateGiB - total(chosen.map(({ room }) => room));
  while (lacking > BYTE_GIB) {
    let exchange: { peer: number; cut: TimedCut; worth: number } | null = null;
    for (const [peer, now] of chosen.entries())
      for (const cut of choices[peer] ?? []) {
        const worth = (cut.room - now.room) / Math.max(cut.timeMs - now.timeMs, Number.MIN_VALUE);
        if (cut.room > now.room && worth > (exchange?.worth ?? 0)) exchange = { peer, cut, worth };
      }
    if (exchange === null) return sizing; // lacking by rounding only
    lacking -= exchange.cut.room - at(chosen, exchange.peer).room;
    chosen[exchange.peer] = exchange.cut;
  }
  return sizingOf(group, peers, chosen);
}

interface TimedCut extends Cut {
  readonly timeMs: number;
  readonly room: number;
}

/** Every way to cut a peer's samples into equal micro-batches that fit. */
function cutsOf(group: Group, peer: PeerCosts, samples: number): TimedCut[] {
  const cuts: TimedCut[] = [];
  for (let size = 1; size <= samples; size++) {
    if (samples % size !== 0 || !fits(peer, size)) continue;
    const count = samples / size;
    cuts.push({ size, count, timeMs: peerTimeMs(group, peer, size, count), room: roomGiB(peer, size) });
  }
  return cuts;
}

const sizingOf = (group: Group, peers: readonly PeerCosts[], cuts: readonly Cut[]): Sizing => ({
  cuts: cuts.map(({ size, count }) => ({ size, count })),
  objectiveMs: Math.max(
    ...peers.map((peer, index) => peerTimeMs(group, peer, at(cuts, index).size, at(cuts, index).count)),
  ),
});

const fits = (peer: PeerCosts, size: number): boolean => roomGiB(peer, size) >= -BYTE_GIB;
const total = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0);
