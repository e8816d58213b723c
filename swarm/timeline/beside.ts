/**
 * What a peer does in a step beside its work on micro-batches: what it hands on, the layers that it gathers, its updates
 * and the new values. Measured and predicted spans have the same words, so that the one stands beside the other.
 */
import type { PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { TurnEnd } from '../schedule/action.ts';
import type { ReportedSpan } from './measured.ts';
import type { Interval } from './timeline.ts';

/** SEND until the next owner's link has taken it; GATHER until a block of a gathered stage is there. */
interface Passing {
  readonly op: 'SEND_F' | 'SEND_B' | 'GATHER_F' | 'GATHER_B';
  readonly stage: number;
  readonly microBatch: number;
}

/** REDUCE until its gradient sums are with their keepers, GATHER until its new values are here; ANSWER: a piece of answers on the GPU. */
interface OfStage {
  readonly op: 'REDUCE' | 'GATHER' | 'ANSWER';
  readonly stage: number;
}

/** UPDATE on the GPU, UPDATE_HOST in main memory, SEND_V until the new values are with their holders; or how a turn ended. */
interface OfStep {
  readonly op: 'UPDATE' | 'UPDATE_HOST' | 'SEND_V' | TurnEnd;
}

export type BesideAction = Passing | OfStage | OfStep;
export type BesideOp = BesideAction['op'];

export interface BesideSpan extends Interval {
  readonly peer: PeerId;
  readonly action: BesideAction;
}

/** Longer than any deadline lets a donor take. */
const LONGEST_SECONDS = 3_600;
const TEXT =
  /^(?:(\d+)(SEND_F|SEND_B|GATHER_F|GATHER_B)(\d+)|(\d+)(REDUCE|GATHER|ANSWER)|(UPDATE|UPDATE_HOST|SEND_V|SWITCH|MEET))$/;

/** `1SEND_F3`, `0GATHER_F3`, `0REDUCE`, `0ANSWER`, `UPDATE_HOST`. */
export function besideText(action: BesideAction): string {
  if ('microBatch' in action) return `${action.stage}${action.op}${action.microBatch}`;
  return 'stage' in action ? `${action.stage}${action.op}` : action.op;
}

/** Of a text that somebody else wrote; null: it is none of these. */
export function readBeside(text: string): BesideAction | null {
  const [, microStage, passing, microBatch, stage, ofStage, ofStep] = TEXT.exec(text) ?? [];
  if (passing !== undefined)
    return { op: passing as Passing['op'], stage: Number(microStage), microBatch: Number(microBatch) };
  if (ofStage !== undefined) return { op: ofStage as OfStage['op'], stage: Number(stage) };
  return ofStep === undefined ? null : { op: ofStep as OfStep['op'] };
}

/** Those of a report that the plan gives to this peer. */
export function besideSpans(
  plan: Plan,
  peer: PeerId,
  spans: readonly Omit<ReportedSpan, 'aloneSeconds'>[],
): BesideSpan[] {
  const isOfPlan = peers(plan).includes(peer);
  const isOwn = (action: BesideAction): boolean => {
    if (!('stage' in action)) return isOfPlan;
    const member = plan.stages[action.stage]?.members.find((one) => one.peer === peer);
    return member !== undefined && (!('microBatch' in action) || member.microBatches.includes(action.microBatch));
  };
  return spans.flatMap(({ action: text, start, end }): BesideSpan[] => {
    const action = readBeside(text);
    if (action === null || end < start || end - start > LONGEST_SECONDS || !isOwn(action)) return [];
    return [{ peer, action, startSeconds: start, endSeconds: end }];
  });
}
