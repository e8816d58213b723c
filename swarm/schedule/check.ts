/**
 * Judges a schedule against its plan: is all work there, once, in its owner's list, and can the lists run to their
 * end? The last is found by a dry run without durations: whoever can go on does, and if nobody can before all is done,
 * the lists wait for each other, whatever the durations. See SPEC.md, rules SC.
 */
import type { PeerId } from '../base.ts';
import type { Model } from '../model.ts';
import type { Plan, Problem } from '../plan.ts';
import { type Action, formatAction, isTransfer, type Schedule, type Work, workKey } from './action.ts';
import { gpipe } from './gpipe.ts';
import { forwardOnly, lower } from './lower.ts';
import { before, type Wiring, wiring } from './order.ts';

/** A step has backwards and an update; an evaluation forwards alone. */
export type ScheduleKind = 'step' | 'evaluation';

export function scheduleProblems(
  model: Pick<Model, 'tied'>,
  plan: Plan,
  schedule: Schedule,
  kind: ScheduleKind = 'step',
): readonly Problem[] {
  const misfits = workProblems(plan, schedule, kind);
  return misfits.length > 0 ? misfits : deadlock(wiring(model, plan, schedule), schedule);
}

const RULE_OF_OP: Readonly<Record<Action['op'], Problem['rule']>> = {
  F: 'SC2',
  R: 'SC2',
  B: 'SC2',
  SEND_F: 'SC5',
  RECV_F: 'SC5',
  SEND_B: 'SC5',
  RECV_B: 'SC5',
  REDUCE: 'SC6',
  UPDATE: 'SC7',
  GATHER: 'SC8',
};

/** Missing, doubled and misplaced work. */
function workProblems(plan: Plan, schedule: Schedule, kind: ScheduleKind): Problem[] {
  const expected = expectedWork(plan, schedule, kind);
  const ownerOf = new Map(
    [...expected].flatMap(([peer, actions]) => [...actions.keys()].map((text) => [text, peer] as const)),
  );
  const found: Problem[] = [];
  for (const [peer, actions] of schedule) {
    const seen = new Set<string>();
    for (const action of actions) {
      const text = formatAction(action);
      // A schedule may recompute more than the plan asks for; that belongs to the forward's owner.
      const wanted = action.op === 'R' ? formatAction({ ...action, op: 'F' }) : text;
      const rule = RULE_OF_OP[action.op];
      if (seen.has(text)) found.push({ rule, text: `${text} is more than once in the list of ${peer}` });
      else if (!expected.get(peer)?.has(wanted)) {
        const owner = ownerOf.get(wanted);
        found.push(
          owner === undefined
            ? { rule, text: `${text} in the list of ${peer} is no work of this plan` }
            : { rule: 'SC3', text: `${text} is in the list of ${peer}, but it is work of ${owner}` },
        );
      }
      seen.add(text);
    }
  }
  for (const [peer, actions] of expected) {
    const present = new Set((schedule.get(peer) ?? []).map(formatAction));
    for (const [text, { op }] of actions)
      if (!present.has(text)) found.push({ rule: RULE_OF_OP[op], text: `${text} is missing from the list of ${peer}` });
  }
  return found;
}

/** The work of the plan, whatever its order. Of transfers and of reduce and update a schedule has all or, before lowering, none. */
function expectedWork(plan: Plan, schedule: Schedule, kind: ScheduleKind): Map<PeerId, Map<string, Action>> {
  const all = [...schedule.values()].flat();
  const transfers = all.some(isTransfer);
  const stateWork = all.some((action) => !('microBatch' in action));
  const whole = kind === 'step' ? lower(plan, gpipe(plan)) : forwardOnly(plan);
  const wanted = (action: Action): boolean => {
    if (isTransfer(action)) return transfers;
    return action.op === 'F' || action.op === 'B' || stateWork;
  };
  return new Map(
    [...whole].map(([peer, actions]) => [
      peer,
      new Map(actions.filter(wanted).map((action) => [formatAction(action), action])),
    ]),
  );
}

/** Dry run: every peer goes on as far as it can, round after round. */
function deadlock(wires: Wiring, schedule: Schedule): Problem[] {
  const done = new Set<string>();
  const reached = new Map([...schedule.keys()].map((peer) => [peer, 0]));
  const missing = (work: Work): Work[] => before(work, wires).filter((first) => !done.has(workKey(first)));
  let moved = true;
  while (moved) {
    moved = false;
    for (const [peer, actions] of schedule) {
      let next = reached.get(peer) ?? 0;
      for (let action = actions[next]; action && missing({ peer, action }).length === 0; action = actions[next]) {
        done.add(workKey({ peer, action }));
        next++;
        moved = true;
      }
      reached.set(peer, next);
    }
  }
  const stuck = [...schedule].some(([peer, actions]) => (reached.get(peer) ?? 0) < actions.length);
  return stuck ? [{ rule: 'SC9', text: `peers wait for each other:\n${grid(schedule, reached, missing)}` }] : [];
}

/** The lists, each with the action it is stuck at in brackets and what that waits for. */
function grid(
  schedule: Schedule,
  reached: ReadonlyMap<PeerId, number>,
  missing: (work: Work) => readonly Work[],
): string {
  const line = ([peer, actions]: readonly [PeerId, readonly Action[]]): string => {
    const stuck = actions[reached.get(peer) ?? 0];
    const cells = actions.map((action) => (action === stuck ? `[${formatAction(action)}]` : formatAction(action)));
    if (!stuck) return `${peer}: ${cells.join(' ')}  done`;
    const needs = missing({ peer, action: stuck }).map((work) => `${formatAction(work.action)} of ${work.peer}`);
    return `${peer}: ${cells.join(' ')}  waits for ${needs.join(', ')}`;
  };
  return [...schedule].map(line).join('\n');
}

/**
 * Most micro-batches between forward and backward, for each peer and stage: the slots that the stage needs there. A
 * micro-batch without a backward (an evaluation's) is over with its forward.
 */
export function slots(schedule: Schedule): ReadonlyMap<PeerId, ReadonlyMap<number, number>> {
  return new Map([...schedule].map(([peer, actions]) => [peer, slotsOfPeer(actions)]));
}

function slotsOfPeer(actions: readonly Action[]): Map<number, number> {
  const backwards = new Set(actions.filter(({ op }) => op === 'B').map(formatAction));
  const flying = new Map<number, number>();
  const peak = new Map<number, number>();
  const change = (stage: number, by: number) => {
    const now = (flying.get(stage) ?? 0) + by;
    flying.set(stage, now);
    peak.set(stage, Math.max(peak.get(stage) ?? 0, now));
  };
  for (const action of actions) {
    if (action.op === 'F') {
      change(action.stage, 1);
      if (!backwards.has(formatAction({ ...action, op: 'B' }))) change(action.stage, -1);
    }
    if (action.op === 'B') change(action.stage, -1);
  }
  return peak;
}
