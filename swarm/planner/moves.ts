/**
 * Drafts where the search begins, and drafts one small random move away from another.
 */
import { arrayOf, at, below, evenRanges, pushToKey, type Random, totalOf } from '../base.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { DRAFT_SCHEDULES, type Draft, type Sketch } from './layout.ts';

type Groups = Draft['groups'];

/** In which everyone may work. */
export const WORK_ORDERS: readonly Pick<Draft, 'schedule' | 'warmup'>[] = [
  ...DRAFT_SCHEDULES.map((schedule) => ({ schedule, warmup: 'normal' as const })),
  { schedule: '1f1b', warmup: 'overlap' },
];

/** A stage of more peers gets no further ones. */
const MOST_LANES = 16;
/** Times that an idle peer is looked for. */
const MOST_DRAWN = 8;

export interface Around {
  readonly costs: ClusterCosts;
  /** Who may take part, the most useful first: these are drawn more often. */
  readonly order: readonly number[];
  readonly random: Random;
}

/** Null where the move that was drawn cannot be made. */
export function neighbour(around: Around, draft: Draft): Sketch | null {
  let drawn = around.random() * WEIGHTS;
  for (const [weight, change] of CHANGES) {
    drawn -= weight;
    if (drawn < 0) return change(around, draft);
  }
  return null;
}

/** With the peers of its stages changed, and the layers to be cut anew, or as they were. */
const regrouping =
  (change: (around: Around, groups: Groups) => Groups | null) =>
  (around: Around, draft: Draft): Sketch | null => {
    const changed = change(around, draft.groups);
    if (changed === null) return null;
    const groups = changed.some(({ length }) => length === 0) ? changed.filter(({ length }) => length > 0) : changed;
    if (groups.length === 0 || groups.length > around.costs.model.layers) return null;
    if (groups.some(({ length }) => length > MOST_LANES)) return null;
    const isCutAnew = groups.length !== draft.groups.length || around.random() >= 0.5;
    return regrouped(around.costs, draft, groups, isCutAnew ? null : draft.layers);
  };

/** `layers`: as they are cut; null: anew. */
export function regrouped(costs: ClusterCosts, draft: Draft, groups: Groups, layers: Sketch['layers'] = null): Sketch {
  const { microBatches, keepers } = draft;
  const lanes = widest(groups);
  const isSized = microBatches === 'sized' && groups.length === 1 && lanes > 1;
  const count = microBatches === 'sized' ? 4 * groups.length : microBatches;
  const isIdle = (place: number): boolean => !groups.some((group) => group.includes(place));
  const { schedule, warmup, placement, inHost } = draft;
  return {
    ...{ groups, layers, schedule, warmup, placement, inHost },
    keepers: keepers.every(isIdle) ? keepers : keepers.filter(isIdle),
    microBatches: isSized ? 'sized' : Math.min(costs.batch.samples, Math.max(count, lanes)),
  };
}

const widest = (groups: Groups): number => groups.reduce((most, { length }) => Math.max(most, length), 0);

/** Some peer of some stage: its place and stage. */
function seated(groups: Groups, random: Random): [number, number] {
  let drawn = below(
    random,
    totalOf(groups, (group) => group.length),
  );
  const stage = groups.findIndex((group) => {
    if (drawn < group.length) return true;
    drawn -= group.length;
    return false;
  });
  return [at(at(groups, stage), drawn), stage];
}

function idle({ order, random }: Around, groups: Groups): number | null {
  for (let tries = 0; tries < MOST_DRAWN; tries++) {
    const place = at(order, Math.floor(random() ** 2 * order.length));
    if (!groups.some((group) => group.includes(place))) return place;
  }
  return null;
}

// Stages that are not touched stay the same lists: what was worked out for them is found again.
const replaced = (groups: Groups, stage: number, group: readonly number[]): Groups =>
  groups.map((own, index) => (index === stage ? group : own));
const without = (group: readonly number[], place: number): number[] => group.filter((other) => other !== place);
const instead = (group: readonly number[], one: number, other: number): number[] =>
  group.map((place) => (place === one ? other : place));
const inserted = (groups: Groups, stage: number, group: readonly number[]): Groups => [
  ...groups.slice(0, stage),
  group,
  ...groups.slice(stage),
];

const moved = (groups: Groups, from: number, to: number): Groups =>
  inserted(
    groups.filter((_, stage) => stage !== from),
    to,
    at(groups, from),
  );

/** All drafts one change away: of a peer, of two, or of a stage; and those with the same peers. */
export function* exchanges(costs: ClusterCosts, draft: Draft, order: readonly number[]): Generator<Sketch> {
  yield* rearranged(costs, draft);
  for (const groups of regroupings(draft.groups, order)) {
    const left = groups.filter((group) => group.length > 0);
    if (left.length === 0 || left.length > costs.model.layers) continue;
    yield regrouped(costs, draft, left);
    if (left.length === draft.groups.length) yield regrouped(costs, draft, left, draft.layers);
  }
}

/** One peer more, in a stage or as a stage of its own, one less, another one in its place; two swapped; a stage elsewhere. */
function* regroupings(groups: Groups, order: readonly number[]): Generator<Groups> {
  const used = new Set(groups.flat());
  const others = order.filter((place) => !used.has(place));
  for (const [stage, group] of groups.entries()) {
    for (const one of group) {
      const fewer = replaced(groups, stage, without(group, one));
      yield fewer;
      for (const other of others) yield replaced(groups, stage, instead(group, one, other));
      for (const [to, theirs] of groups.entries()) {
        if (to !== stage) yield replaced(fewer, to, [...theirs, one]);
        if (to > stage)
          for (const other of theirs)
            yield replaced(replaced(groups, stage, instead(group, one, other)), to, instead(theirs, other, one));
      }
      if (group.length > 1) for (let to = 0; to <= groups.length; to++) yield inserted(fewer, to, [one]);
    }
    for (const other of others) yield replaced(groups, stage, [...group, other]);
    for (let to = 0; to < groups.length; to++) if (to !== stage) yield moved(groups, stage, to);
    const after = groups[stage + 1];
    if (after) yield replaced(replaced(groups, stage, []), stage + 1, [...group, ...after]);
  }
  for (let stage = 0; stage <= groups.length; stage++)
    for (const other of others) yield inserted(groups, stage, [other]);
}

/** The same peers: a layer moved, more or fewer micro-batches, another order of work, the state elsewhere. */
function* rearranged(costs: ClusterCosts, draft: Draft): Generator<Sketch> {
  const { samples } = costs.batch;
  const { layers, microBatches, groups } = draft;
  for (const placement of PLACEMENTS) yield { ...draft, placement };
  if (costs.givesMainMemory) yield { ...draft, inHost: !draft.inHost };
  for (let from = 0; from < layers.length; from++)
    for (let to = 0; to < layers.length; to++)
      if (to !== from && at(layers, from) > 1) yield layerMoved(draft, from, to);
  if (microBatches === 'sized') return;
  for (const order of otherOrders(draft)) yield order;
  for (const count of countsNear(microBatches, widest(groups), samples)) {
    yield { ...draft, microBatches: count };
    yield { ...draft, layers: null, microBatches: count };
  }
}

const PLACEMENTS = ['room', 'links', 'hub'] as const;

const layerMoved = (draft: Draft, from: number, to: number): Draft => ({
  ...draft,
  layers: draft.layers.map((own, stage) => own - (stage === from ? 1 : 0) + (stage === to ? 1 : 0)),
});

const countsNear = (now: number, lanes: number, samples: number): number[] =>
  [now * 2, Math.ceil(now / 2), now + 1, now - 1, now + lanes, now - lanes, samples].filter(
    (count) => count >= 1 && count <= samples && count !== now,
  );

const peerComes = regrouping((around, groups) => {
  const place = idle(around, groups);
  const stage = below(around.random, groups.length);
  return place === null ? null : replaced(groups, stage, [...at(groups, stage), place]);
});

const peerGoes = regrouping(({ random }, groups) => {
  const [place, stage] = seated(groups, random);
  return replaced(groups, stage, without(at(groups, stage), place));
});

const peerRelieves = regrouping((around, groups) => {
  const place = idle(around, groups);
  const [other, stage] = seated(groups, around.random);
  return place === null ? null : replaced(groups, stage, instead(at(groups, stage), other, place));
});

const peerMoves = regrouping(({ random }, groups) => {
  const [place, from] = seated(groups, random);
  const to = below(random, groups.length);
  if (from === to) return null;
  return replaced(replaced(groups, from, without(at(groups, from), place)), to, [...at(groups, to), place]);
});

const peersSwap = regrouping(({ random }, groups) => {
  const [one, from] = seated(groups, random);
  const [other, to] = seated(groups, random);
  if (from === to) return null;
  return replaced(
    replaced(groups, from, instead(at(groups, from), one, other)),
    to,
    instead(at(groups, to), other, one),
  );
});

const stageOpens = regrouping((around, groups) => {
  const place = idle(around, groups);
  return place === null ? null : inserted(groups, below(around.random, groups.length + 1), [place]);
});

const stageMoves = regrouping(({ random }, groups) => {
  const [from, to] = [below(random, groups.length), below(random, groups.length)];
  return from === to ? null : moved(groups, from, to);
});

const stagesJoin = regrouping(({ random }, groups) => {
  if (groups.length < 2) return null;
  const stage = 1 + below(random, groups.length - 1);
  const spliced = [...at(groups, stage - 1), ...at(groups, stage)];
  return replaced(groups, stage - 1, spliced).filter((_, index) => index !== stage);
});

const stageSplits = regrouping(({ random }, groups) => {
  const stage = below(random, groups.length);
  const group = at(groups, stage);
  const isFirst = group.map(() => random() < 0.5);
  const halves = [true, false].map((half) => group.filter((_, index) => at(isFirst, index) === half));
  return halves.some((half) => half.length === 0)
    ? null
    : inserted(replaced(groups, stage, at(halves, 1)), stage, at(halves, 0));
});

function layerMoves({ random }: Around, draft: Draft): Sketch | null {
  const { layers } = draft;
  const [from, to] = [below(random, layers.length), below(random, layers.length)];
  if (from === to || at(layers, from) < 2) return null;
  return layerMoved(draft, from, to);
}

/** More, fewer, or each peer its own size. */
function batchesChange({ costs, random }: Around, draft: Draft): Sketch | null {
  const { groups, microBatches } = draft;
  const { samples } = costs.batch;
  const lanes = widest(groups);
  if (groups.length === 1 && lanes > 1 && microBatches !== 'sized' && random() < 0.25)
    return { ...draft, microBatches: 'sized', schedule: '1f1b' };
  const now = microBatches === 'sized' ? lanes : microBatches;
  const counts = countsNear(now, lanes, samples);
  if (counts.length === 0) return null;
  const count = at(counts, below(random, counts.length));
  return { ...draft, layers: random() < 0.5 ? draft.layers : null, microBatches: count };
}

function scheduleChanges({ random }: Around, draft: Draft): Sketch | null {
  const others = otherOrders(draft);
  return draft.microBatches === 'sized' ? null : at(others, below(random, others.length));
}

function otherOrders(draft: Draft): Draft[] {
  const { schedule, warmup } = draft;
  const others = WORK_ORDERS.filter((order) => order.schedule !== schedule || order.warmup !== warmup);
  return others.map((order) => ({ ...draft, ...order }));
}

/** State by room or by links, or on a hub; in main memory; or with one more, or one less, who keeps state and computes nothing. */
function stateMoves(around: Around, draft: Draft): Sketch | null {
  const { costs, random } = around;
  const { groups, keepers } = draft;
  const kind = below(random, costs.givesMainMemory ? 7 : 6);
  if (kind === 6) return { ...draft, inHost: !draft.inHost };
  if (kind < 3) return { ...draft, placement: at(PLACEMENTS, kind) };
  if (kind === 3 && keepers.length > 0) {
    const gone = below(random, keepers.length);
    return { ...draft, layers: null, keepers: keepers.filter((_, index) => index !== gone) };
  }
  if (kind === 4) {
    const place = idle(around, [...groups, keepers]);
    return place === null ? null : { ...draft, layers: null, keepers: [...keepers, place] };
  }
  // Who is slow, and computes only because the others have no room for the state.
  const [place, stage] = seated(groups, random);
  const left = replaced(groups, stage, without(at(groups, stage), place)).filter((group) => group.length > 0);
  if (left.length === 0) return null;
  const freed = regrouped(costs, draft, left);
  return {
    ...freed,
    schedule: '1f1b',
    microBatches: random() < 0.5 ? freed.microBatches : costs.batch.samples,
    keepers: [...keepers, place],
  };
}

/** How often each is drawn. */
const CHANGES: readonly (readonly [number, (around: Around, draft: Draft) => Sketch | null])[] = [
  [5, peerComes],
  [3, peerGoes],
  [6, peerRelieves],
  [2, peerMoves],
  [3, peersSwap],
  [1, stageOpens],
  [1, stageMoves],
  [0.5, stagesJoin],
  [0.5, stageSplits],
  [2, layerMoves],
  [2, batchesChange],
  [0.5, scheduleChanges],
  [1, stateMoves],
];
const WEIGHTS = totalOf(CHANGES, ([weight]) => weight);

/** Peers by what they would cost a pipeline of a few stages: their layers, and their traffic over their own caps. */
export function usefulOrder({ peers, slowness, model, sampleBytes }: ClusterCosts): number[] {
  const all = peers.map((peer, place) => ({
    place,
    peer,
    seconds: (slowness(peer) * model.layers) / 4 + (2 * sampleBytes) / Math.min(peer.upload, peer.download),
    name: JSON.stringify([peer.region, peer.id]),
  }));
  all.sort(
    (a, b) =>
      a.seconds - b.seconds ||
      b.peer.memoryBytes - a.peer.memoryBytes ||
      b.peer.sessionSeconds - a.peer.sessionSeconds ||
      (a.name < b.name ? -1 : 1),
  );
  return all.map(({ place }) => place);
}

/** Peers of each region, the most useful first. */
export function regionsOf({ peers }: ClusterCosts, order: readonly number[]): number[][] {
  const regions = new Map<string | undefined, number[]>();
  for (const place of order) {
    const region = peers[place]?.region;
    pushToKey(regions, region, place);
  }
  return [...regions.values()];
}

/** So many peers: the most useful of all, and by turns those of the regions that a draft lies in. */
export function around({ peers }: ClusterCosts, order: readonly number[], { groups }: Draft, count: number): number[] {
  const regions = new Set(groups.flat().map((place) => peers[place]?.region));
  const near = order.filter((place) => regions.has(peers[place]?.region));
  const found = new Set<number>();
  for (const [index, place] of order.entries()) {
    if (found.size >= count) break;
    found.add(near[index] ?? place).add(place);
  }
  return [...found];
}

/** Peers, and stages of an even split. */
const [MOST_AT_START, MOST_EVEN] = [64, 8];

/** 1, 2, 3, 5, 7, 10, … and all. */
function beginnings(most: number): number[] {
  const found: number[] = [];
  for (let count = 1; count < most; count = Math.ceil(count * 1.4)) found.push(count);
  return [...found, most];
}

/**
 * Drafts where the search begins: some of the peers in so many stages, by speed alone and along a path on which neighbours are
 * near (FlashFlex, DT-FM: who shares a stage exchanges much, so it should lie in one region), and everyone as equals.
 *
 * Of so many peers: the first ones, and those with most memory, in so many stages of about the same speed.
 */
export function* starts(
  costs: ClusterCosts,
  order: readonly number[],
  [fewest, most]: readonly [number, number],
): Generator<Sketch> {
  const roomiest = order.toSorted((a, b) => at(costs.peers, b).memoryBytes - at(costs.peers, a).memoryBytes);
  const { samples } = costs.batch;
  for (const count of beginnings(Math.min(order.length, MOST_AT_START))) {
    if (count < fewest || count > most) continue;
    for (const places of count < order.length ? [order.slice(0, count), roomiest.slice(0, count)] : [order])
      for (let stages = 1; stages <= Math.min(count, costs.model.layers); stages++) {
        for (const groups of [
          balanced(places, costs.speeds, stages),
          pieces(nearby(costs, places), costs.speeds, stages),
        ])
          for (const microBatches of new Set([Math.min(samples, 4 * stages), samples]))
            yield { groups, microBatches, schedule: '1f1b' };
      }
  }
  if (order.length < fewest || order.length > most) return;
  // Those that take everyone for equals.
  for (let stages = 1; stages <= Math.min(order.length, costs.model.layers, MOST_EVEN); stages++) {
    const groups = evenRanges(order.length, stages).map(([from, to]) => order.slice(from, to));
    const layers = evenRanges(costs.model.layers, stages).map(([from, to]) => to - from);
    for (let microBatches = 1; microBatches <= samples; microBatches *= 2)
      for (const schedule of DRAFT_SCHEDULES) yield { groups, layers, microBatches, schedule };
  }
}

/** The first stages of one draft and the last ones of another, both cut near the same layer; who is in both, in the first. */
export function spliced(costs: ClusterCosts, one: Draft, other: Draft, random: Random): Sketch | null {
  const cut = random() * costs.model.layers;
  const isBefore = ({ layers }: Draft, stage: number): boolean =>
    layers.slice(0, stage).reduce((sum, own) => sum + own, at(layers, stage) / 2) < cut;
  const first = one.groups.filter((_, stage) => isBefore(one, stage));
  const used = new Set(first.flat());
  const last = other.groups.filter((_, stage) => !isBefore(other, stage));
  const groups = [...first, ...last.map((group) => group.filter((place) => !used.has(place)))].filter(
    (group) => group.length > 0,
  );
  if (groups.length === 0 || groups.length > costs.model.layers) return null;
  return regrouped(costs, one, groups);
}

const knownPaths = new WeakMap<readonly number[], number[]>();

/** From the first one on always the nearest one next: by a sample's activation over the link and both caps. */
function nearby({ peers, linkAt, sampleBytes }: ClusterCosts, places: readonly number[]): number[] {
  const known = knownPaths.get(places);
  if (known) return known;
  const left = new Set(places);
  const path: number[] = [];
  for (let next: number | undefined = places[0]; next !== undefined; ) {
    path.push(next);
    left.delete(next);
    const here = at(peers, next);
    let [nearest, least]: [number | undefined, number] = [undefined, Infinity];
    for (const place of left) {
      const there = at(peers, place);
      const { latencySeconds, bytesPerSecond } = linkAt(next, place);
      const rate = Math.min(here.upload, here.download, there.upload, there.download, bytesPerSecond ?? here.upload);
      const seconds = latencySeconds + sampleBytes / rate;
      if (seconds < least) [nearest, least] = [place, seconds];
    }
    next = nearest;
  }
  knownPaths.set(places, path);
  return path;
}

/** A path cut into so many pieces of about the same speed, none empty. */
function pieces(path: readonly number[], speeds: readonly number[], count: number): number[][] {
  const whole = totalOf(path, (place) => at(speeds, place));
  let piece: number[] = [];
  const found = [piece];
  let before = 0;
  for (const [index, place] of path.entries()) {
    const speed = at(speeds, place);
    const isFull = before + speed / 2 > (whole * found.length) / count;
    const isLate = path.length - index <= count - found.length;
    if (piece.length > 0 && found.length < count && (isFull || isLate)) {
      piece = [];
      found.push(piece);
    }
    piece.push(place);
    before += speed;
  }
  return found;
}

/** Into so many groups of about the same speed: the fastest first, each to the slowest group. */
function balanced(places: readonly number[], speeds: readonly number[], groups: number): number[][] {
  const hands = arrayOf(groups, () => ({ members: [] as number[], speed: 0 }));
  for (const place of places.toSorted((a, b) => at(speeds, b) - at(speeds, a))) {
    const slowest = hands.reduce((best, hand) => (hand.speed < best.speed ? hand : best));
    slowest.members.push(place);
    slowest.speed += at(speeds, place);
  }
  return hands.map(({ members }) => members);
}

/**
 * The same with nobody but the operator's own peers in the first and last stage, where a run has it so: a stranger there changes
 * places with one of them from a stage between, or goes. Nor do strangers keep state who compute nothing. Null: nobody is left.
 */
export function withOwnEnds({ peers, own, batch }: ClusterCosts, sketch: Sketch): Sketch | null {
  if (own === null) return sketch;
  const isOwn = (place: number): boolean => own.has(at(peers, place).id);
  let { groups } = sketch;
  for (;;) {
    if (groups.length === 0) return null;
    const last = groups.length - 1;
    const end = [0, last].find((stage) => !at(groups, stage).every(isOwn));
    if (end === undefined) break;
    const stranger = at(groups, end).find((place) => !isOwn(place)) ?? 0;
    const between = groups.findIndex((group, stage) => stage > 0 && stage < last && group.some(isOwn));
    const mate = groups[between]?.find(isOwn);
    groups =
      mate === undefined
        ? replaced(groups, end, without(at(groups, end), stranger)).filter((group) => group.length > 0)
        : replaced(
            replaced(groups, between, instead(at(groups, between), mate, stranger)),
            end,
            instead(at(groups, end), stranger, mate),
          );
  }
  const { keepers = [], layers = null, microBatches } = sketch;
  if (groups === sketch.groups && keepers.every(isOwn)) return sketch;
  const isSized = microBatches === 'sized' && widest(groups) > 1;
  return {
    ...sketch,
    groups,
    layers: groups.length === sketch.groups.length ? layers : null,
    keepers: keepers.filter(isOwn),
    microBatches: isSized || microBatches !== 'sized' ? microBatches : Math.min(batch.samples, 4),
  };
}
