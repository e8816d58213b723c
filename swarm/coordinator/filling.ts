/**
 * Large copies are made while the run trains on: their keepers are named by a plan and have no say in a commit; each of its
 * steps sends a part, and who was sent all of it counts from the first step on that it reports as its primary does. No
 * step begins before they have done the one before: nobody is more than a step ahead of them. Rules RE in SPEC.md.
 */
import { countIn, type PeerId, totalOf } from '../base.ts';
import { plannedBytes } from '../memory/memory.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { SLICE_ELEMENTS } from '../model/layout.ts';
import { transfers } from '../plan/handover.ts';
import { type Filling, type LateCopy, lateCopies, lateTransfers, withCopiesAhead } from '../plan/lateCopies.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { FLOAT_BYTES, stateKinds } from '../plan/stateKinds.ts';
import type { CoordinatorConfig } from './events.ts';
import { areSame, wordsOf } from './replicas.ts';
import { type CoordinatorState, keeperKey, type PlanInForce, shardKey } from './state.ts';

/** One piece, as copies travel. */
const LATE_BYTES = FLOAT_BYTES * SLICE_ELEMENTS;
/**
 * A step sends a replica eight bytes of each element that it keeps, a gradient and a value; a quarter of its state is three
 * more.
 */
const FILLING_STEPS = 4;

export const lateKey = ({ to, block, range }: LateCopy): string => keeperKey(to, shardKey(block, range));

/** The copies of a plan that are made beside its steps; null: they are small, and moved before the first one. */
export function fillingOf(
  { train, lateBytes = LATE_BYTES }: CoordinatorConfig,
  before: Plan,
  after: Plan,
): Filling | null {
  // The state of an island changes its name where another's turn begins.
  if (train.islands) return null;
  const late = lateCopies(before, after);
  const elements = totalOf(late, ({ range }) => countIn(range));
  const bytes = FLOAT_BYTES * stateKinds(undefined).length * elements;
  return bytes <= lateBytes ? null : { late, sent: 0, lastStep: null };
}

/**
 * Before an unforced change of plan that would move much: the plan in force with copies at those who lack that state. Null:
 * little is left to move, or nobody has more room.
 */
export function planAhead({ config, donors }: CoordinatorState, before: Plan, next: Plan): Plan | null {
  const { train, batch, wire, compute, lateBytes = LATE_BYTES } = config;
  if (train.islands) return null;
  const model = acceptedModel(config);
  const moved = transfers(model, stateKinds(undefined), before, next, compute === 'f16');
  const elements = totalOf(moved, ({ from, to, range }) => (from === to ? 0 : countIn(range)));
  if (FLOAT_BYTES * elements <= lateBytes) return null;
  const bytes = (plan: Plan, peer: PeerId): number =>
    plannedBytes(model, plan, peer, { sequence: batch.sequence, wire, ...(compute ? { compute } : {}) });
  const gives = new Map(donors.map(({ peer, memoryBytes }) => [peer, memoryBytes ?? 0]));
  // What a donor that says no number can bear one of the two plans shows.
  const hasRoom = (peer: PeerId, ahead: Plan): boolean =>
    bytes(ahead, peer) <= Math.max(gives.get(peer) ?? 0, bytes(before, peer), bytes(next, peer));
  const ahead = withCopiesAhead(model, before, next, hasRoom);
  return ahead === before ? null : ahead;
}

/** Whom the next plan leaves out nobody told to get ready, and it meets the newcomers ahead of that plan already. */
export const areWarmAhead = (ahead: Plan, next: Plan): boolean =>
  peers(ahead).every((peer) => peers(next).includes(peer));

/** What the next step sends beside its work; null: nothing. */
export function nextCopies(
  { filling }: Pick<PlanInForce, 'filling'>,
  step: number,
): { readonly copies: [number, number]; readonly filling: Filling } | null {
  if (filling === null || filling.lastStep !== null) return null;
  const all = lateTransfers(stateKinds(undefined), filling.late).length;
  const sent = Math.min(all, filling.sent + Math.ceil(all / FILLING_STEPS));
  return { copies: [filling.sent, sent], filling: { ...filling, sent, lastStep: sent === all ? step : null } };
}

/** Whose report a commit waits for, though it does not need it. */
export const fillingPeers = ({ filling }: Pick<PlanInForce, 'filling'>): PeerId[] => [
  ...new Set(filling?.late.map(({ to }) => to)),
];

/** State goes from the one to the other beside the steps. */
export const isFilledBy = (
  { filling }: Pick<PlanInForce, 'filling'>,
  peer: PeerId,
  giver: PeerId | undefined,
): boolean => filling?.late.some(({ from, to }) => from === giver && to === peer) ?? false;

/**
 * After the commit of a step. Who did not get what its primary got has to be copied anew, and so have the others; when all is
 * sent and a further step was done with it they are replicas like any other.
 */
export function filledAfter(
  { filling, lacking }: Pick<PlanInForce, 'filling' | 'lacking'>,
  step: number,
  reports: ReadonlyMap<PeerId, ReportMessage>,
): Pick<PlanInForce, 'filling' | 'lacking'> {
  if (filling === null) return { filling, lacking };
  const isWithPrimary = ({ from, to, block, range }: LateCopy): boolean => {
    const said = wordsOf(reports, shardKey(block, range));
    return said(to) !== undefined && areSame(said(to), said(from));
  };
  if (!filling.late.every(isWithPrimary)) return { filling: null, lacking };
  if (filling.lastStep === null || step <= filling.lastStep) return { filling, lacking };
  const keepers = filling.late.map(lateKey);
  return { filling: null, lacking: lacking.filter(({ keeper }) => !keepers.includes(keeper)) };
}
