/**
 * From a builder's forwards and backwards to what a peer runs: small passes from schedule to schedule, each adding one
 * kind of action. Sends run beside the peer's work, so they stand right after what they send; receives are awaited, so
 * they stand right before what needs them. See SPEC.md, SC5 to SC8 and SC20.
 */
import type { PeerId } from '../base.ts';
import type { Turn } from '../islands/rounds.ts';
import { keepersOf, owner, type Plan, peers, type ScheduleName } from '../plan/plan.ts';
import type { Train } from '../run/runFile.ts';
import type { Action, MicroAction, Schedule, StateAction, TurnEnd } from './action.ts';
import { breadthFirst } from './breadthFirst.ts';
import { chimera } from './chimera.ts';
import { gpipe } from './gpipe.ts';
import { interleaved } from './interleaved.ts';
import { oneForwardOneBackward } from './oneForwardOneBackward.ts';

/** A builder writes forwards and backwards alone; everything else follows from the plan. */
const BUILDERS: Readonly<Record<ScheduleName, (plan: Plan) => Schedule>> = {
  gpipe,
  '1f1b': (plan) => oneForwardOneBackward(plan),
  interleaved,
  'breadth-first': breadthFirst,
  chimera,
  // Their lists say what there is to do and how many are in flight; the order is the policy's.
  eager: (plan) => oneForwardOneBackward(plan),
  varuna: (plan) => oneForwardOneBackward(plan),
};

/** The plan's schedule as its builder writes it: F and B. */
export const build = (plan: Plan): Schedule => BUILDERS[plan.schedule](plan);

/** Everything a step needs, from a builder's schedule; `end`: what it is the end of, in a run with islands. */
export const lower = (plan: Plan, schedule: Schedule, end: TurnEnd | null = null): Schedule =>
  addUpdate(plan, addCommit(addReduce(addTransfers(plan, addRecompute(plan, schedule)))), end);

/** The lists that peers run in a step. */
export const stepSchedule = (plan: Plan, end: TurnEnd | null = null): Schedule => lower(plan, build(plan), end);

/** What the step of this turn is the end of, at who has these islands (absent: all). Groups meet apart from their steps. */
export const turnEnd = (
  { islands }: Pick<Train, 'islands'>,
  { endsTurn, endsRound }: Turn,
  own?: readonly number[],
): TurnEnd | null => {
  if (!islands || !endsTurn || own?.length === 1) return null;
  return endsRound && !own ? 'MEET' : 'SWITCH';
};

/** The lists that peers run in an evaluation: forwards and their transfers. */
export const forwardOnly = (plan: Plan): Schedule => addTransfers(plan, heldOut(plan));

/**
 * Forwards alone: nothing is kept for a backward, so what a stage leaves lies there only until the next forward. Where the
 * next stage is the same peer's it follows at once. So the order over all work is by the first of such stages in a row,
 * then by micro-batch, then by stage: needs only point back, and no two lists wait for each other.
 */
function heldOut(plan: Plan): Schedule {
  const work: { readonly row: number; readonly action: MicroAction }[] = [];
  for (const { id: microBatch } of plan.microBatches) {
    let row = 0;
    for (const stage of plan.stages.keys()) {
      const isSame = stage > 0 && owner(plan, stage, microBatch) === owner(plan, stage - 1, microBatch);
      if (!isSame) row = stage;
      work.push({ row, action: { op: 'F', stage, microBatch } });
    }
  }
  work.sort((a, b) => a.row - b.row || a.action.microBatch - b.action.microBatch || a.action.stage - b.action.stage);
  const lists = new Map(peers(plan).map((peer): [typeof peer, MicroAction[]] => [peer, []]));
  for (const { action } of work) lists.get(owner(plan, action.stage, action.microBatch))?.push(action);
  return lists;
}

/** A recompute before each backward of a member that recomputes layers of the stage. */
export function addRecompute(plan: Plan, schedule: Schedule): Schedule {
  const recomputing = plan.stages.map(
    ({ members }) => new Set(members.flatMap(({ peer, recompute }) => (recompute.length > 0 ? [peer] : []))),
  );
  if (recomputing.every((members) => members.size === 0)) return schedule;
  return rewrite(schedule, (action, peer) =>
    action.op === 'B' && recomputing[action.stage]?.has(peer) ? [{ ...action, op: 'R' }, action] : [action],
  );
}

/** Sends and receives where neighbouring stages have different owners for a micro-batch. */
export function addTransfers(plan: Plan, schedule: Schedule): Schedule {
  const last = plan.stages.length - 1;
  const elsewhere = (stage: number, microBatch: number, peer: PeerId): boolean =>
    stage >= 0 && stage <= last && owner(plan, stage, microBatch) !== peer;
  return rewrite(schedule, (action, peer) => {
    if (action.op !== 'F' && action.op !== 'B') return [action];
    const { op, stage, microBatch } = action;
    const onward = op === 'F' ? 1 : -1;
    const receive: MicroAction = { op: `RECV_${op}`, stage, microBatch };
    const send: MicroAction = { op: `SEND_${op}`, stage, microBatch };
    return [
      ...(elsewhere(stage - onward, microBatch, peer) ? [receive] : []),
      action,
      ...(elsewhere(stage + onward, microBatch, peer) ? [send] : []),
    ];
  });
}

/**
 * A member reduces a stage as soon as its last backward there is done and sent on, so that the slices travel beside
 * its other work but behind the gradient that a neighbour waits for.
 */
export function addReduce(schedule: Schedule): Schedule {
  return new Map(
    [...schedule].map(([peer, actions]) => {
      const lastOfStage = new Map<number, number>();
      actions.forEach((action, index) => {
        if (action.op === 'B' || action.op === 'SEND_B') lastOfStage.set(action.stage, index);
      });
      const reduced = actions.flatMap((action, index): Action[] =>
        'stage' in action && lastOfStage.get(action.stage) === index
          ? [action, { op: 'REDUCE', stage: action.stage }]
          : [action],
      );
      return [peer, reduced];
    }),
  );
}

/** At the end of every list: each peer reports, and awaits the commit. */
export const addCommit = (schedule: Schedule): Schedule =>
  new Map([...schedule].map(([peer, actions]) => [peer, [...actions, { op: 'REPORT' }, { op: 'COMMIT' }]]));

/** At the end of every list: keepers update, primaries send the new values, members gather them. Replicas get theirs beside the next step. */
export function addUpdate(plan: Plan, schedule: Schedule, end: TurnEnd | null = null): Schedule {
  return new Map(
    [...schedule].map(([peer, actions]) => {
      const shards = plan.state.flatMap((state) => state.shards);
      const isPrimary = shards.some((shard) => shard.peer === peer);
      const isKeeper = shards.some((shard) => keepersOf(shard).includes(peer));
      const gathers = plan.stages.flatMap(({ members }, stage): StateAction[] =>
        members.some((member) => member.peer === peer) ? [{ op: 'GATHER', stage }] : [],
      );
      const ends: StateAction[] = [
        ...(isKeeper ? [{ op: 'UPDATE' } as const, ...(end ? [{ op: end }] : [])] : []),
        ...(isPrimary ? [{ op: 'SEND_V' } as const] : []),
        ...gathers,
      ];
      return [peer, [...actions, ...ends]];
    }),
  );
}

/** Each action replaced by some, in place. */
const rewrite = (schedule: Schedule, replace: (action: Action, peer: PeerId) => Action[]): Schedule =>
  new Map([...schedule].map(([peer, actions]) => [peer, actions.flatMap((action) => replace(action, peer))]));
