/**
 * The vocabulary of work. An action is one thing one peer does; its text form is the same word in logs, tests, the
 * dashboard and debug groups: `2F0` is stage 2, forward, micro-batch 0; `1SEND_F3`; `0REDUCE` (of a whole stage);
 * `COMMIT` (of the whole step).
 */
import type { PeerId } from '../base.ts';

/** Per micro-batch: F forward, R recompute, B backward, and the transfers. */
export type MicroOp = 'F' | 'R' | 'B' | 'SEND_F' | 'RECV_F' | 'SEND_B' | 'RECV_B';
/** Per stage: REDUCE sends its gradient sums to who keeps them, GATHER takes its new values. */
type StageOp = 'REDUCE' | 'GATHER';
/**
 * Per step: REPORT adds the sums of what this peer keeps and tells the server, COMMIT awaits its answer, UPDATE applies it
 * to what this peer keeps, SEND_V sends the new values. In a run with islands, between the two: at the end of an island's
 * turn SWITCH lays its state aside and takes the next one's, at the end of a round MEET holds the meeting.
 */
type StepOp = 'REPORT' | 'COMMIT' | 'UPDATE' | TurnEnd | 'SEND_V';
export type TurnEnd = 'SWITCH' | 'MEET';

export type MicroAction = { readonly op: MicroOp; readonly stage: number; readonly microBatch: number };
type StageAction = { readonly op: StageOp; readonly stage: number };
type StepAction = { readonly op: StepOp };
/** What is done for the state, once all micro-batches are through. */
export type StateAction = StageAction | StepAction;
export type Action = MicroAction | StateAction;

/** An action and who does it. A StateAction is done by several peers. */
export interface Work {
  readonly peer: PeerId;
  readonly action: Action;
}

/** A name for a piece of work, unique in a step. */
export const workKey = ({ peer, action }: Work): string => `${formatAction(action)} ${peer}`;

/** Each peer's list, in the order it runs. */
export type Schedule = ReadonlyMap<PeerId, readonly Action[]>;

export const MICRO_OPS: readonly MicroOp[] = ['F', 'R', 'B', 'SEND_F', 'RECV_F', 'SEND_B', 'RECV_B'];
/** Numbers for the kinds of action, those of MICRO_OPS first: for tables of millions. */
export const OP_INDEX = {
  ...{ F: 0, R: 1, B: 2, SEND_F: 3, RECV_F: 4, SEND_B: 5, RECV_B: 6 },
  ...{ REDUCE: 7, REPORT: 8, COMMIT: 9, UPDATE: 10, SEND_V: 11, GATHER: 12, SWITCH: 13, MEET: 14 },
} as const satisfies Record<Action['op'], number>;
const TEXT =
  /^(?:(\d+)(F|R|B|SEND_F|RECV_F|SEND_B|RECV_B)(\d+)|(\d+)(REDUCE|GATHER)|(REPORT|COMMIT|UPDATE|SWITCH|MEET|SEND_V))$/;

export function formatAction(action: Action): string {
  if ('microBatch' in action) return `${action.stage}${action.op}${action.microBatch}`;
  return 'stage' in action ? `${action.stage}${action.op}` : action.op;
}

/** Of a text that somebody else wrote; null: it is no action. */
export function readAction(text: string): Action | null {
  const [, microStage, microOp, microBatch, stage, stageOp, stepOp] = TEXT.exec(text) ?? [];
  if (microOp !== undefined)
    return { op: microOp as MicroOp, stage: Number(microStage), microBatch: Number(microBatch) };
  if (stageOp !== undefined) return { op: stageOp as StageOp, stage: Number(stage) };
  return stepOp === undefined ? null : { op: stepOp as StepOp };
}

/** Work of the GPU on a micro-batch. */
export type ComputeAction = MicroAction & { readonly op: 'F' | 'R' | 'B' };
export const isCompute = (action: Action): action is ComputeAction =>
  action.op === 'F' || action.op === 'R' || action.op === 'B';

/** A transfer runs beside the peer's work: it takes no time of the peer's own. */
export const isTransfer = ({ op }: Action): boolean =>
  op === 'SEND_F' || op === 'RECV_F' || op === 'SEND_B' || op === 'RECV_B';

export const isTurnEnd = (action: { readonly op: string }): action is { readonly op: TurnEnd } =>
  action.op === 'SWITCH' || action.op === 'MEET';
