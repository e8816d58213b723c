/**
 * What must come first: the one place that knows. The checker and the simulator ask `before` (or, for a million answers,
 * `tellNeeds`), and the executor runs no list that the checker would not pass: so a schedule means the same to all. See
 * SPEC.md, SC4 to SC8 and SC20.
 *
 * Where a schedule leaves something out (transfers before lowering, recompute where nothing is recomputed), the need
 * falls through to what stands behind it: a forward without a receive needs the neighbour's forward itself.
 */
import { assertNever, at, got, invariant, type PeerId } from '../base.ts';
import type { BlockName, Model } from '../model/model.ts';
import { homeStage, keepersOf, type Plan } from '../plan/plan.ts';
import {
  type Action,
  isTurnEnd,
  MICRO_OPS,
  type MicroOp,
  OP_INDEX,
  type Schedule,
  type StateAction,
  type TurnEnd,
  type Work,
  workKey,
} from './action.ts';

/** A plan and a schedule, indexed for `before`. */
export interface Wiring {
  readonly plan: Plan;
  readonly tied: boolean;
  readonly lastStage: number;
  readonly owner: (stage: number, microBatch: number) => PeerId;
  /** The work's number, counted through the schedule list by list; -1 where it is not in there. */
  readonly find: (work: Work) => number;
  /** As `find`, whoever does it: a micro-batch has one owner in a stage. */
  readonly number: (op: MicroOp, stage: number, microBatch: number) => number;
  /** As `find`, of what several peers do. */
  readonly stateNumber: (action: StateAction, peer: PeerId) => number;
  /** What the step is the end of, in a run with islands. */
  readonly end: TurnEnd | null;
  /** Without whose reports no step is committed: those who have losses or keep state. */
  readonly reporters: ReadonlySet<PeerId>;
}

export function wiring(model: Pick<Model, 'tied'>, plan: Plan, schedule: Schedule): Wiring {
  const rank = rankOf(plan);
  const owners = plan.stages.map(({ members }) => {
    const byRank: PeerId[] = [];
    for (const { peer, microBatches } of members) for (const id of microBatches) byRank[rank(id)] = peer;
    return byRank;
  });
  // Numbers in one table: looking work up by its text would take longer than simulating it.
  const [stages, microBatches] = [plan.stages.length, plan.microBatches.length];
  const numbers = new Int32Array(MICRO_OPS.length * stages * microBatches).fill(-1);
  const place = (op: MicroOp, stage: number, microBatch: number): number =>
    (OP_INDEX[op] * stages + stage) * microBatches + rank(microBatch);
  const number = (op: MicroOp, stage: number, microBatch: number): number =>
    numbers[place(op, stage, microBatch)] ?? -1;
  const stateNumbers = new Map<string, number>();
  const stateNumber = (action: StateAction, peer: PeerId): number => stateNumbers.get(workKey({ peer, action })) ?? -1;
  let count = 0;
  let end: TurnEnd | null = null;
  for (const [peer, actions] of schedule) {
    for (const action of actions) {
      if (isTurnEnd(action)) end = action.op;
      if ('microBatch' in action) numbers[place(action.op, action.stage, action.microBatch)] = count;
      else stateNumbers.set(workKey({ peer, action }), count);
      count++;
    }
  }
  return {
    plan,
    tied: model.tied,
    lastStage: stages - 1,
    owner: (stage, microBatch) => {
      const peer = owners[stage]?.[rank(microBatch)];
      invariant(peer !== undefined, `micro-batch ${microBatch} has no owner in stage ${stage}`);
      return peer;
    },
    find: ({ peer, action }) =>
      'microBatch' in action ? number(action.op, action.stage, action.microBatch) : stateNumber(action, peer),
    number,
    stateNumber,
    end,
    reporters: stateNumbers.size === 0 ? new Set() : reportersOf(plan),
  };
}

/** A micro-batch's place in the plan. Mostly that is its id. */
function rankOf({ microBatches }: Plan): (id: number) => number {
  if (microBatches.every(({ id }, index) => id === index)) return (id) => id;
  const ranks = new Map(microBatches.map(({ id }, index) => [id, index]));
  return (id) => got(ranks, id);
}

/** The work that must have ended before this one may start, whoever does it. */
export function before(work: Work, wiring: Wiring): Work[] {
  const found: Work[] = [];
  tellNeeds(work.action, work.peer, wiring, {
    micro: (op, stage, microBatch) =>
      void found.push({ peer: wiring.owner(stage, microBatch), action: { op, stage, microBatch } }),
    state: (action, peer) => void found.push({ peer, action }),
  });
  return found;
}

/** Who is told of needs, one by one: whoever walks a million of them has no use for a list of each. */
export interface NeedsListener {
  readonly micro: (op: MicroOp, stage: number, microBatch: number) => void;
  readonly state: (action: StateAction, peer: PeerId) => void;
}

/** As `before`. */
export function tellNeeds(action: Action, peer: PeerId, wiring: Wiring, { micro, state }: NeedsListener): void {
  switch (action.op) {
    case 'F':
      if (action.stage > 0) tellArrival('F', action.stage, action.microBatch, wiring, micro);
      return;
    case 'R':
    case 'SEND_F':
      micro('F', action.stage, action.microBatch);
      return;
    case 'B': {
      const { stage, microBatch } = action;
      micro('F', stage, microBatch);
      if (isThere(wiring, 'R', stage, microBatch)) micro('R', stage, microBatch);
      // The last stage's loss is its own: no gradient comes from outside.
      if (stage !== wiring.lastStage) tellArrival('B', stage, microBatch, wiring, micro);
      return;
    }
    case 'SEND_B':
      micro('B', action.stage, action.microBatch);
      return;
    case 'RECV_F':
      micro('SEND_F', action.stage - 1, action.microBatch);
      return;
    case 'RECV_B':
      micro('SEND_B', action.stage + 1, action.microBatch);
      return;
    case 'REDUCE':
      for (const member of at(wiring.plan.stages, action.stage).members)
        if (member.peer === peer) for (const id of member.microBatches) micro('B', action.stage, id);
      return;
    case 'REPORT':
      for (const work of reducesFor(peer, wiring)) state(work.action, work.peer);
      return;
    case 'COMMIT':
      for (const reporter of new Set([...wiring.reporters, peer])) state({ op: 'REPORT' }, reporter);
      return;
    case 'UPDATE':
      state({ op: 'COMMIT' }, peer);
      return;
    case 'SWITCH':
    case 'MEET':
      state({ op: 'UPDATE' }, peer);
      return;
    case 'SEND_V':
      state({ op: wiring.end ?? 'UPDATE' }, peer);
      return;
    case 'GATHER':
      state({ op: 'COMMIT' }, peer);
      for (const primary of primariesFor(action.stage, wiring)) state({ op: 'SEND_V' }, primary);
      return;
    default:
      assertNever(action);
  }
}

/** What a report of this peer waits for: its own gradients, and those of all who compute with a block that it keeps. */
function reducesFor(peer: PeerId, wiring: Wiring): { peer: PeerId; action: StateAction }[] {
  const { stages, state } = wiring.plan;
  const kept = state.filter(({ shards }) => shards.some((shard) => keepersOf(shard).includes(peer)));
  return stages.flatMap(({ members }, stage) => {
    const isKept = kept.some(({ block }) => usesBlock(block, stage, wiring));
    const senders = members.filter((member) => isKept || member.peer === peer);
    return senders.map((member) => ({ peer: member.peer, action: { op: 'REDUCE', stage } as const }));
  });
}

const reportersOf = ({ stages, state }: Plan): Set<PeerId> =>
  new Set([
    ...at(stages, stages.length - 1).members.map(({ peer }) => peer),
    ...state.flatMap(({ shards }) => shards.flatMap(keepersOf)),
  ]);

/** Who sends the new values of a stage's blocks. */
const primariesFor = (stage: number, wiring: Wiring): Set<PeerId> =>
  new Set(
    wiring.plan.state.flatMap(({ block, shards }) =>
      usesBlock(block, stage, wiring) ? shards.map(({ peer }) => peer) : [],
    ),
  );

/** What brings a stage its input: its receive, or where the schedule has none the neighbour's work itself. */
function tellArrival(
  op: 'F' | 'B',
  stage: number,
  microBatch: number,
  wiring: Wiring,
  micro: NeedsListener['micro'],
): void {
  const receive = op === 'F' ? 'RECV_F' : 'RECV_B';
  if (isThere(wiring, receive, stage, microBatch)) micro(receive, stage, microBatch);
  else micro(op, op === 'F' ? stage - 1 : stage + 1, microBatch);
}

const isThere = (wiring: Wiring, op: MicroOp, stage: number, microBatch: number): boolean =>
  wiring.number(op, stage, microBatch) !== -1;

/** Where a send goes: the owner of the micro-batch in the next stage, or for a gradient in the one before. */
export function receiver(op: 'SEND_F' | 'SEND_B', stage: number, microBatch: number, wiring: Wiring): PeerId {
  return wiring.owner(op === 'SEND_F' ? stage + 1 : stage - 1, microBatch);
}

const usesBlock = (block: BlockName, stage: number, { plan, tied, lastStage }: Wiring): boolean =>
  homeStage(plan, block) === stage || (tied && block === 'embedding' && stage === lastStage);
