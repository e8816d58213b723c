/** What one peer measured of its own work in a step, by its own clock, and how its report says it. */
import type { PeerId } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction, isCompute, readAction } from '../schedule/action.ts';
import type { ComputeSpan } from './timeline.ts';

export type ReportedSpan = ReportMessage['spans'][number];

/** Before it is known when the work began. */
interface Submission extends Omit<ComputeSpan, 'startSeconds'> {
  /** When it was handed to the GPU: by then its input was here. */
  readonly submittedSeconds: number;
  /** At a share of the GPU's time: what this work takes alone, as the donor spaces its work by. */
  readonly aloneSeconds?: number | undefined;
}

export type MeasuredSpan = Submission & ComputeSpan;

/** Work waits in the GPU's queue: it begins when the work `before` it has ended, not when it was handed in. */
export const begun = (submission: Submission, before: MeasuredSpan | undefined): MeasuredSpan => ({
  ...submission,
  startSeconds: Math.min(submission.endSeconds, Math.max(submission.submittedSeconds, before?.endSeconds ?? -Infinity)),
});

/** A report says when work was handed in: the clocks of two peers are compared by that. */
export const reported = ({ action, submittedSeconds, endSeconds, aloneSeconds }: MeasuredSpan): ReportedSpan => ({
  action: formatAction(action),
  start: submittedSeconds,
  end: endSeconds,
  ...(aloneSeconds !== undefined && { aloneSeconds }),
});

/** By their ends, as a GPU's queue has them. What the plan does not give to this peer is left out. */
export function measuredSpans(plan: Plan, peer: PeerId, spans: readonly ReportedSpan[]): MeasuredSpan[] {
  const own = new Set(
    plan.stages.flatMap(({ members }, stage) =>
      members.flatMap((member) => (member.peer === peer ? member.microBatches.map((id) => `${stage} ${id}`) : [])),
    ),
  );
  const found: MeasuredSpan[] = [];
  for (const { action: text, start, end, aloneSeconds } of spans.toSorted((a, b) => a.end - b.end)) {
    const action = readAction(text);
    if (action === null || !isCompute(action) || end < start) continue;
    if (!own.has(`${action.stage} ${action.microBatch}`)) continue;
    found.push(begun({ peer, action, submittedSeconds: start, endSeconds: end, aloneSeconds }, found.at(-1)));
  }
  return found;
}
