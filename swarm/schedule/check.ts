/**
 * Judges a schedule against its plan: is all work there, once, in its owner's list, and can the lists run to their
 * end? The last is found by a dry run without durations: whoever can go on does, and if nobody can before all is done,
 * the lists wait for each other, whatever the durations. See SPEC.md, rules SC.
 */
import { at, type PeerId } from '../base.ts';
import type { Model } from '../model/model.ts';
import type { Plan, Problem } from '../plan/plan.ts';
import { type Action, formatAction, isTransfer, isTurnEnd, type Schedule, type Work } from './action.ts';
import { gpipe } from './gpipe.ts';
import { type WorkGraph, walk, workGraph, workOf } from './graph.ts';
import { type GridMark, grid } from './grid.ts';
import { forwardOnly, lower } from './lower.ts';
import { before, wiring } from './order.ts';

/** A step has backwards and an update; an evaluation forwards alone. */
type ScheduleKind = 'step' | 'evaluation';

export function scheduleProblems(
  model: Pick<Model, 'tied'>,
  plan: Plan,
  schedule: Schedule,
  kind: ScheduleKind = 'step',
): readonly Problem[] {
  const misfits = workProblems(plan, schedule, kind);
  return misfits.length > 0 ? misfits : deadlock(workGraph(wiring(model, plan, schedule), schedule), schedule);
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
  REPORT: 'SC20',
  COMMIT: 'SC20',
  UPDATE: 'SC7',
  SWITCH: 'SC7',
  MEET: 'SC7',
  SEND_V: 'SC8',
  GATHER: 'SC8',
};

/** Missing, doubled and misplaced work. */
function workProblems(plan: Plan, schedule: Schedule, kind: ScheduleKind): Problem[] {
  const expected = expectedWork(plan, schedule, kind);
  const ownerOf = new Map(
    [...expected].flatMap(([peer, actions]) => [...actions.keys()].map((text) => [text, peer] as const)),
  );
  const found: Problem[] = [];
  const report = (rule: Problem['rule'], sentence: string, peer: PeerId, mark: GridMark): void => {
    const list = new Map([[peer, schedule.get(peer) ?? []]]);
    found.push({ rule, text: `${sentence}:\n${grid(list, new Map([[peer, mark]]))}` });
  };
  for (const [peer, actions] of schedule) {
    const seen = new Set<string>();
    for (const [index, action] of actions.entries()) {
      const text = formatAction(action);
      // A schedule may recompute more than the plan asks for; that belongs to the forward's owner.
      const wanted = action.op === 'R' ? formatAction({ ...action, op: 'F' }) : text;
      const rule = RULE_OF_OP[action.op];
      const owner = ownerOf.get(wanted);
      if (seen.has(text))
        report(rule, `${text} is more than once in the list of ${peer}`, peer, { index, note: 'again' });
      else if (owner === undefined)
        report(rule, `${text} in the list of ${peer} is no work of this plan`, peer, { index, note: 'unknown' });
      else if (!expected.get(peer)?.has(wanted))
        report('SC2', `${text} is in the list of ${peer}, but it is work of ${owner}`, peer, { index, note: owner });
      seen.add(text);
    }
  }
  for (const [peer, actions] of expected) {
    const list = schedule.get(peer) ?? [];
    const present = new Set(list.map(formatAction));
    for (const [text, { op }] of actions)
      if (!present.has(text))
        report(RULE_OF_OP[op], `${text} is missing from the list of ${peer}`, peer, {
          index: list.length,
          note: `ends without ${text}`,
        });
  }
  return found;
}

/** The work of the plan, whatever its order. Of transfers and of what is done for the state a schedule has all or, before lowering, none. */
function expectedWork(plan: Plan, schedule: Schedule, kind: ScheduleKind): Map<PeerId, Map<string, Action>> {
  const all = [...schedule.values()].flat();
  const transfers = all.some(isTransfer);
  const stateWork = all.some((action) => !('microBatch' in action));
  const end = all.find(isTurnEnd)?.op ?? null;
  const whole = kind === 'step' ? lower(plan, gpipe(plan), end) : forwardOnly(plan);
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

/** What is wrong with a schedule of all the plan's work, each once: do its lists wait for each other? */
export function deadlock(graph: WorkGraph, schedule: Schedule): Problem[] {
  const { wires } = graph;
  const reached = walk(graph, () => {});
  const done = (work: Work): boolean => {
    const number = wires.find(work);
    return number !== -1 && number < at(reached, at(graph.peerOf, number));
  };
  const marks = graph.peers.map((peer, index): readonly [PeerId, GridMark] => {
    const [from, to] = [at(graph.listFrom, index), at(graph.listFrom, index + 1)];
    const stuck = at(reached, index);
    if (stuck === to) return [peer, { index: to - from, note: 'done' }];
    const missing = before(workOf(graph, stuck), wires).filter((need) => !done(need));
    const needs = missing.map((work) => `${formatAction(work.action)} of ${work.peer}`);
    return [peer, { index: stuck - from, note: `waits for ${needs.join(', ')}` }];
  });
  if (marks.every(([, { note }]) => note === 'done')) return [];
  return [{ rule: 'SC9', text: `peers wait for each other:\n${grid(schedule, new Map(marks))}` }];
}
