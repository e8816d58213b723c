/**
 * Who takes turns on a line that several share, and when: first all of one's message, then another's (ATLAS, 2024), in an
 * order that is a pure function of the plan, so that nobody has to ask and no clock decides. It is the order in which the
 * stream comes to the line where every peer has the same to do, its time going to its work by layers and samples, and the
 * line as much as a peer: of what waits there, who is needed first goes first (SI15). That is an order in which the step can
 * be done, so that none waits for another in a circle. See SPEC.md, PL63.
 */
import { addToKey, at, got, type PeerId } from '../base.ts';
import { owner, type Plan, samplesById } from '../plan/plan.ts';
import type { Action, MicroAction } from '../schedule/action.ts';
import { workGraph } from '../schedule/graph.ts';
import { addTransfers, build } from '../schedule/lower.ts';
import { wiring } from '../schedule/order.ts';
import type { Costs } from './clock.ts';
import type { LinkCost } from './links.ts';
import { simulateEnds } from './simulate.ts';

interface LineMessage {
  readonly from: PeerId;
  /** `SEND_F` or `SEND_B`, of the stage that sends it. */
  readonly action: MicroAction;
}

/** A message's place: whose message goes right before it, and what goes right after it. */
interface LineTurn {
  readonly after: PeerId | null;
  readonly next: LineMessage | null;
}

const known = new WeakMap<Plan, readonly (readonly LineMessage[])[]>();

/** Of each of the plan's lines what goes over it in a step, in the order in which it goes. */
export function lineTurns(plan: Plan): readonly (readonly LineMessage[])[] {
  if (!plan.lines) return [];
  const found = known.get(plan) ?? ordered(plan, plan.lines);
  known.set(plan, found);
  return found;
}

/** The turns of what this peer sends over its line, by the text of what it is. */
export function turnsOf(plan: Plan, peer: PeerId): ReadonlyMap<string, LineTurn> {
  const turns = new Map<string, LineTurn>();
  for (const messages of lineTurns(plan))
    for (const [place, { from, action }] of messages.entries())
      if (from === peer)
        turns.set(turnText(action), { after: messages[place - 1]?.from ?? null, next: messages[place + 1] ?? null });
  return turns;
}

export const turnText = ({ op, stage, microBatch }: MicroAction): string => `${op} ${stage}/${microBatch}`;

export const isSend = (action: Action): action is MicroAction => action.op === 'SEND_F' || action.op === 'SEND_B';

function ordered(plan: Plan, lines: readonly (readonly PeerId[])[]): LineMessage[][] {
  const schedule = addTransfers(plan, build(plan));
  const graph = workGraph(wiring({ tied: false }, plan, schedule), schedule); // of state there is nothing in it
  const lineOf = new Map(lines.flatMap((line, place) => line.map((peer) => [peer, place] as const)));
  const lineFor = (from: PeerId, { op, stage, microBatch }: MicroAction): number | undefined => {
    const to = owner(plan, op === 'SEND_F' ? stage + 1 : stage - 1, microBatch);
    const line = lineOf.get(from);
    return line === lineOf.get(to) ? undefined : line;
  };
  const sent = graph.actions.map((action, work) => {
    const from = at(graph.peers, at(graph.peerOf, work));
    return isSend(action) ? { from, action, line: lineFor(from, action) } : null;
  });
  const { endSeconds } = simulateEnds(graph, evenCosts(plan, lines.length, sent, lineFor));
  const byEnd = [...sent.entries()].sort(([a], [b]) => at(endSeconds, a) - at(endSeconds, b) || a - b);
  return lines.map((_, line) =>
    byEnd.flatMap(([, one]) => (one?.line === line ? [{ from: one.from, action: one.action }] : [])),
  );
}

/** The step of each peer takes three seconds, of which a third is forwards; what goes over each line as long. */
function evenCosts(
  plan: Plan,
  lines: number,
  sent: readonly ({ readonly action: MicroAction; readonly line: number | undefined } | null)[],
  lineFor: (from: PeerId, action: MicroAction) => number | undefined,
): Costs {
  const sizes = samplesById(plan);
  const size = (id: number): number => got(sizes, id);
  const layersOf = (stage: number): number => {
    const [from, to] = at(plan.stages, stage).layers;
    return Math.max(1, to - from);
  };
  const work = new Map<PeerId, number>();
  for (const [stage, { members }] of plan.stages.entries())
    for (const { peer, samples } of members) addToKey(work, peer, samples * layersOf(stage));
  const carried = Array<number>(lines).fill(0);
  for (const one of sent)
    if (one?.line !== undefined) carried[one.line] = at(carried, one.line) + size(one.action.microBatch);
  const seconds = (stage: number, id: number, peer: PeerId): number => (size(id) * layersOf(stage)) / got(work, peer);
  const plain: LinkCost = { latencySeconds: 0, bytesPerSecond: null };
  return {
    forwardSeconds: seconds,
    backwardSeconds: (...work) => 2 * seconds(...work),
    link: (from, _, action) => {
      const line = isSend(action) ? lineFor(from, action) : undefined;
      return line === undefined ? plain : { ...plain, line };
    },
    lines: carried.map((samples) => ({ sharing: 'turns', bytesPerSecond: samples / 3 || 1 })),
    activationBytes: (_, id) => size(id),
    gradientBytes: (_, id) => size(id),
  };
}
