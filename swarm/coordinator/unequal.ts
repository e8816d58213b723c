/**
 * Where the keepers of a shard did not get the same slices, their words and that of the holder who sent them say between
 * whom. It is forgiven once; the second time what these two send each other goes through the server, and who then says
 * another digest than went by is refused. So it is with the sum of their squares. Rules RE in SPEC.md.
 */
import { countIn, type PeerId } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { keepersOf } from '../plan/plan.ts';
import { type ComparedShard, comparedShards, onlySent, sliceName } from '../ways/compared.ts';
import { isPair, relay, remember, throwOut } from './blame.ts';
import { breaksSquares } from './bounds.ts';
import type { CoordinatorEvent, Pair, RelayedSlice } from './events.ts';
import { tryAgain } from './planInForce.ts';
import { BEHIND_LIMIT, wordsOf } from './replicas.ts';
import { keeperKey, type PlanInForce, shardKey, type Training } from './state.ts';
import type { DifferentSquares } from './tally.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

/** What the server saw itself needs nobody's word. */
export function sliceRelayed(
  transition: Transition,
  { epoch, step, from, to, slice, digest, squares }: Extract<CoordinatorEvent, { type: 'sliceRelayed' }>,
) {
  const { state } = transition;
  if (epoch !== state.epoch || !donorOf(transition, from)) return;
  const recent = state.relayedSlices.filter((one) => one.step > step - BEHIND_LIMIT);
  change(transition, { relayedSlices: [...recent, { step, from, to, slice, digest, squares }] });
  const other = recent.find((one) => one.step === step && one.from === from && one.slice === slice);
  if (other === undefined || other.digest === digest) return;
  const why = `the server saw that it sent ${other.to} and ${to} different slices`;
  throwOut(transition, from, why, `${from} was refused: ${why}`, true);
}

/** Of a slice of which a shard's primary and a replica have not the same: what its holder says that it sent, and one of them that it got. */
interface Dispute {
  readonly slice: string;
  readonly holder: PeerId;
  /** Undefined: it has not reported. */
  readonly sent: string | undefined;
  readonly keeper: PeerId;
  readonly received: string | undefined;
}

/**
 * After the reports of a step: refuses who is shown to have said what is not so, else remembers between whom it was. True:
 * somebody was refused.
 */
export function settleDisputes(transition: Transition, { inForce, step, reports }: Training): boolean {
  const words = new Map(reports.map(({ peer, report }) => [peer, report]));
  const compared = comparedShards(acceptedModel(transition.state.config), inForce.plan);
  const sent = sentWords(compared, words);
  const found = compared.flatMap(({ block, shard, slices }) => {
    const said = wordsOf(words, shardKey(block, shard.range));
    const digestsOf = (peer: PeerId) => said(peer)?.digests ?? null;
    return shard.replicas.flatMap((replica) =>
      disputes({ shard, slices }, replica, digestsOf, (holder, slice) => sent(holder).get(slice)),
    );
  });
  return settle(transition, inForce, step, found);
}

/** The same of one replica's report of a step that is committed already: what holders said of it is forgotten by now. */
export function settleLateDisputes(transition: Transition, before: PlanInForce, peer: PeerId, report: ReportMessage) {
  const compared = comparedShards(acceptedModel(transition.state.config), before.plan);
  const found = compared.flatMap(({ block, shard, slices }) => {
    const key = shardKey(block, shard.range);
    const owes = before.lacking.find(({ keeper }) => keeper === keeperKey(peer, key))?.owes ?? [];
    const primary = owes.find(({ step }) => step === report.step)?.digests ?? null;
    const own = wordsOf(new Map([[peer, report]]), key)(peer)?.digests ?? null;
    const digestsOf = (of: PeerId) => (of === peer ? own : of === shard.peer ? primary : null);
    return disputes({ shard, slices }, peer, digestsOf, () => undefined);
  });
  return settle(transition, before, report.step, found);
}

type Compared = Pick<ComparedShard, 'shard' | 'slices'>;

/** Where a replica has not what the primary has, which of the two has not what its holder says that it sent. */
function disputes(
  { shard, slices }: Compared,
  replica: PeerId,
  digestsOf: (keeper: PeerId) => readonly string[] | null,
  sentOf: (holder: PeerId, slice: string) => string | undefined,
): Dispute[] {
  const [primary, copy] = [digestsOf(shard.peer), digestsOf(replica)];
  if (!primary || !copy) return [];
  return slices.flatMap(({ holder, tensor }, place): Dispute[] => {
    if (primary[place] === copy[place]) return [];
    const slice = sliceName(tensor);
    const sent = keepersOf(shard).includes(holder) ? digestsOf(holder)?.[place] : sentOf(holder, slice);
    const words = [
      { keeper: shard.peer, received: primary[place] },
      { keeper: replica, received: copy[place] },
    ];
    return words.flatMap((word) =>
      word.keeper === holder || word.received === sent ? [] : { slice, holder, sent, ...word },
    );
  });
}

/** By its slices' names, what each says that it sent of shards that it does not keep. */
function sentWords(compared: readonly ComparedShard[], reports: ReadonlyMap<PeerId, ReportMessage>) {
  const known = new Map<PeerId, ReadonlyMap<string, string>>();
  return (peer: PeerId): ReadonlyMap<string, string> => {
    const digests = reports.get(peer)?.sent ?? [];
    const found =
      known.get(peer) ??
      new Map(
        onlySent(compared, peer).flatMap((tensor, place) => {
          const digest = digests[place];
          return digest === undefined ? [] : [[sliceName(tensor), digest] as const];
        }),
      );
    known.set(peer, found);
    return found;
  };
}

/**
 * Where keepers of the same slices came to different sums of their squares, what their holders send them goes through the
 * server, and the step is done again, once. Whoever then says what these slices cannot add up to is refused; where both can
 * be, the primary's counts. False: the step is not to be committed.
 */
export function areSquaresSettled(
  transition: Transition,
  { inForce, step, reports }: Training,
  differing: readonly DifferentSquares[],
): boolean {
  if (differing.length === 0) return true;
  const words = new Map(reports.map(({ peer, report }) => [peer, report]));
  const compared = comparedShards(acceptedModel(transition.state.config), inForce.plan);
  const shards = compared.filter(({ block, shard }) =>
    differing.some(({ key }) => key === shardKey(block, shard.range)),
  );
  const pairs = shards.flatMap(({ shard, slices }) =>
    slices.flatMap(({ holder }) =>
      keepersOf(shard).flatMap((keeper): Pair[] => (keeper === holder ? [] : [[holder, keeper]])),
    ),
  );
  const names = [...new Set(differing.map(({ key }) => key))];
  const sentence = `The keepers of ${names[0]}${names.length > 1 ? ' and others' : ''} did not get the same squares`;
  log(transition, 'warn', `${sentence}.`);
  if (pairs.some((pair) => !isPair(inForce.watched, ...pair))) {
    relay(transition, pairs);
    tryAgain(transition, sentence);
    return false;
  }
  for (const { block, shard, slices } of shards) {
    const key = shardKey(block, shard.range);
    const said = wordsOf(words, key);
    const norms = holderNorms(slices, transition.state.relayedSlices, step);
    const liar = keepersOf(shard).find((keeper) => {
      const word = said(keeper);
      return word !== undefined && norms !== null && breaksSquares(word.sumSquares, norms, countIn(shard.range));
    });
    if (liar === undefined) continue;
    const why = `the slices of ${key} that went by cannot have the squares that it says`;
    throwOut(transition, liar, why, `${liar} was refused: ${why}`, true);
    return false;
  }
  return true;
}

/** Of what each holder sent of a shard; null: not all of it went by. */
function holderNorms(
  slices: ComparedShard['slices'],
  relayed: readonly RelayedSlice[],
  step: number,
): readonly number[] | null {
  const squares = new Map<PeerId, number>();
  for (const { holder, tensor } of slices) {
    const slice = sliceName(tensor);
    const seen = relayed.find((one) => one.step === step && one.from === holder && one.slice === slice);
    if (seen === undefined || seen.squares === null) return null;
    squares.set(holder, (squares.get(holder) ?? 0) + seen.squares);
  }
  return [...squares.values()].map(Math.sqrt);
}

function settle(transition: Transition, inForce: PlanInForce, step: number, found: readonly Dispute[]): boolean {
  const liar = liarOf(found, inForce, transition.state.relayedSlices, step);
  if (liar !== undefined) {
    const why = 'the server saw another slice go by than it says';
    throwOut(transition, liar, why, `${liar} was refused: ${why}`, true);
    return true;
  }
  const pairs = new Map(found.map(({ holder, keeper }) => [`${holder} ${keeper}`, [holder, keeper] as const]));
  for (const pair of pairs.values()) accuse(transition, pair);
  return false;
}

/** Who says another digest than went by; or has a slice that did not go by, where all that it gets of this holder does. */
function liarOf(
  found: readonly Dispute[],
  { watched }: PlanInForce,
  relayed: readonly RelayedSlice[],
  step: number,
): PeerId | undefined {
  for (const { slice, holder, sent, keeper, received } of found) {
    if (!isPair(watched, holder, keeper)) continue;
    const seen = relayed.find(
      (one) => one.step === step && one.slice === slice && one.from === holder && one.to === keeper,
    );
    if (seen?.digest !== received) return keeper;
    if (sent !== undefined) return holder;
  }
  return undefined;
}

function accuse(transition: Transition, [holder, keeper]: Pair) {
  const before = transition.state.faults.some(
    ({ of, peer, about }) => of === 'slices' && peer === holder && about === keeper,
  );
  remember(transition, 'slices', holder, keeper);
  log(transition, 'warn', `What ${holder} says that it sent ${keeper} is not what ${keeper} says that it got.`);
  if (before) relay(transition, [[holder, keeper]]);
}
