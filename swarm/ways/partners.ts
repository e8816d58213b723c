/**
 * Who may reach whom, and with how much: exactly those who send each other tensors under the plan that a `prepare` names,
 * under the plan before it where its members hand over, and in the hand-over itself. Whatever carries signals or frames
 * asks here; nobody else's come through. Rules WP in SPEC.md.
 */
import { type PeerId, type Range, totalOf } from '../base.ts';
import { tensorBytes } from '../messages/frame.ts';
import type { ServerMessage, StateSource } from '../messages/messages.ts';
import type { RunFacts } from '../messages/runFacts.ts';
import type { Model } from '../model/model.ts';
import { holdings } from '../plan/handover.ts';
import { type LateCopy, lateCopies, lateTransfers, withoutLate } from '../plan/lateCopies.ts';
import { keepersOf, type Plan, peers } from '../plan/plan.ts';
import { FLOAT_BYTES, isFirstZero, loadedKinds, stateKinds } from '../plan/stateKinds.ts';
import type { Compute } from '../precision.ts';
import type { Islands } from '../run/runFile.ts';
import type { Passage } from './passage.ts';
import {
  bytesOf,
  handoverTensors,
  heldOutTensors,
  lateTensor,
  type StreamSize,
  stepTensors,
  wholeValues,
} from './tensors.ts';

/** Of a run: with a plan it says every tensor's size. */
export interface Sizes extends StreamSize {
  readonly model: Model;
  /** What the run asks for. */
  readonly asked: Compute;
  /** Which kinds of state there are follows from them; absent: one synchronous swarm. */
  readonly islands?: Islands | undefined;
}

export const sizesOf = (
  model: Model,
  { train, wire, compute = 'f32' }: Pick<RunFacts, 'train' | 'wire'> & { readonly compute?: Compute | undefined },
): Sizes => ({
  ...{ model, sequence: train.sequenceLength, wire, asked: compute },
  islands: train.islands,
});

export type Prepare = Pick<Extract<ServerMessage, { type: 'prepare' }>, 'plan' | 'source'>;

/** What is sent until everyone is ready: once. */
export function arrivalTensors(sizes: Sizes, plan: Plan, source: StateSource): Passage[] {
  switch (source.from) {
    case 'checkpoint':
      return [];
    case 'kept': // the newest values once more
      if (plan.stateWire) return wholeValues(sizes.model, plan);
      return stepTensors(sizes.model, plan, sizes).filter(({ tensor }) => tensor.kind === 'values');
    case 'peers':
      return handoverTensors(
        sizes.model,
        stateKinds(sizes.islands, plan.islands, plan.owned),
        source.plan,
        withoutLate(plan, lateCopiesOf(plan, source)),
        sizes.asked === 'f16' || source.salvaged === true,
      );
  }
}

export const lateCopiesOf = (plan: Plan, source: StateSource): LateCopy[] =>
  source.from === 'peers' && source.late ? lateCopies(source.plan, plan) : [];

/** What replicas are sent beside the plan's steps, in the order of `lateTransfers`. */
export function latePassages({ model, islands }: Sizes, { plan, source }: Prepare): Passage[] {
  const kinds = stateKinds(islands);
  return lateTransfers(kinds, lateCopiesOf(plan, source)).map((transfer) => ({
    ...{ from: transfer.from, to: transfer.to },
    tensor: lateTensor(model, kinds, transfer),
  }));
}

/** Bytes of state that reach the members of a plan before its first step, also those that the server keeps for them. */
export function arrivalBytes(sizes: Sizes, plan: Plan, source: StateSource): number {
  if (source.from !== 'checkpoint') return totalOf(arrivalTensors(sizes, plan, source), (passage) => bytesOf(passage));
  const { model, islands } = sizes;
  const loaded = loadedKinds(islands, plan.islands, plan.owned).filter((kind) => source.step > 0 || !isFirstZero(kind));
  const held = peers(plan).flatMap((peer) =>
    model.blocks.flatMap(({ name }) => loaded.flatMap((kind) => holdings(model, plan, peer, name, kind))),
  );
  return totalOf(held, (range) => tensorBytes({ range }));
}

/** Everything that may pass from the `prepare` to the first step: of the plan, of the one before, and between them. */
const passages = (sizes: Sizes, { plan, source }: Prepare): Passage[] => [
  ...arrivalTensors(sizes, plan, source),
  ...stepTensors(sizes.model, plan, sizes),
  // Its committed step is completed first, unless somebody of it is gone.
  ...(source.from === 'peers' && !source.salvaged ? stepTensors(sizes.model, source.plan, sizes) : []),
];

/** Each peer's partners: whom it may open a link to and take signals, links and frames from. */
export type Partners = ReadonlyMap<PeerId, ReadonlySet<PeerId>>;

export function partnersIn(list: readonly Passage[]): Map<PeerId, Set<PeerId>> {
  const found = new Map<PeerId, Set<PeerId>>();
  const add = (one: PeerId, other: PeerId): void => {
    const known = found.get(one);
    if (known) known.add(other);
    else found.set(one, new Set([other]));
  };
  for (const { from, to } of list) {
    add(from, to);
    add(to, from);
  }
  return found;
}

/** Under a plan in force. */
export const planPartners = (sizes: Sizes, plan: Plan): Partners => partnersIn(stepTensors(sizes.model, plan, sizes));

/** From a `prepare` until its plan's first step starts. */
export const arrivalPartners = (sizes: Sizes, prepare: Prepare): Partners => partnersIn(passages(sizes, prepare));

/** What a peer is sent from a `prepare` on: everything that may come, by name. */
export interface Incoming {
  /** Once, before the first step. */
  readonly arrival: readonly Passage[];
  readonly step: readonly Passage[];
  /** Each once, in some step. */
  readonly late: readonly Passage[];
  /** In each round of an evaluation. */
  readonly heldOut: readonly Passage[];
  /** Of each sender, the most that it can have to send before this peer has heard of the next `prepare`. */
  readonly earlyBytes: ReadonlyMap<PeerId, number>;
}

export function incoming(sizes: Sizes, prepare: Prepare, me: PeerId): Incoming {
  const { plan, source } = prepare;
  const mine = (list: readonly Passage[]): Passage[] => list.filter(({ to }) => to === me);
  const { model, islands } = sizes;
  const shardBytes = ([from, to]: Range): number =>
    FLOAT_BYTES * stateKinds(islands, plan.islands, plan.owned).length * (to - from);
  const step = mine(stepTensors(model, plan, sizes));
  const earlyBytes = new Map<PeerId, number>();
  const add = (peer: PeerId, bytes: number): void => void earlyBytes.set(peer, (earlyBytes.get(peer) ?? 0) + bytes);
  // It begins the same plan again, or hands over what it keeps.
  const whole = mine(wholeValues(model, plan));
  for (const passage of [...step, ...whole]) add(passage.from, bytesOf(passage));
  for (const { shards } of plan.state)
    for (const shard of shards) for (const keeper of keepersOf(shard)) add(keeper, shardBytes(shard.range));
  return {
    // Kept: as a step sends them, or as the last one of an island's turn does.
    arrival: [...(source.from === 'peers' ? mine(arrivalTensors(sizes, plan, source)) : []), ...whole],
    step,
    late: mine(latePassages(sizes, prepare)),
    heldOut: mine(heldOutTensors(model, plan, sizes)),
    earlyBytes,
  };
}

/**
 * Of who gets ready for a plan: what each partner may hand over to it before it has heard of the `prepare`. Who that will
 * be is not known yet, so that each may send all that the plan has it hold.
 */
export function warmBytes(sizes: Sizes, plan: Plan, me: PeerId): ReadonlyMap<PeerId, number> {
  const { model, islands } = sizes;
  const kinds = stateKinds(islands, plan.islands, plan.owned);
  const held = model.blocks.flatMap(({ name }) => kinds.flatMap((kind) => holdings(model, plan, me, name, kind)));
  const bytes = FLOAT_BYTES * held.reduce((sum, [from, to]) => sum + to - from, 0);
  const partners = planPartners(sizes, plan).get(me) ?? new Set<PeerId>();
  return new Map([...partners].map((peer) => [peer, bytes]));
}

/** Of a link's two ends this one offers; the other one accepts, or asks for an offer. */
export const offers = (me: PeerId, other: PeerId): boolean => me < other;
