/**
 * The vocabulary of work. An action is one thing one peer does; its text form is the same word in logs, tests, the
 * dashboard and debug groups: `2F0` is stage 2, forward, micro-batch 0; `1SEND_F3`; `0REDUCE` (no micro-batch).
 */
import { invariant, type PeerId, peerId } from '../base.ts';

export const SCHEDULE_NAMES = ['gpipe', '1f1b'] as const;
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];

/** Every order that can be simulated; peers run those of SCHEDULE_NAMES. */
export const SIMULATED_SCHEDULES = [
  ...SCHEDULE_NAMES,
  'interleaved',
  'breadth-first',
  'chimera',
  'eager',
  'varuna',
] as const;
export type SimulatedSchedule = (typeof SIMULATED_SCHEDULES)[number];

/** Per micro-batch: F forward, R recompute, B backward, and the transfers. Per stage: REDUCE, UPDATE, GATHER. */
export type MicroOp = 'F' | 'R' | 'B' | 'SEND_F' | 'RECV_F' | 'SEND_B' | 'RECV_B';
export type StageOp = 'REDUCE' | 'UPDATE' | 'GATHER';

export type MicroAction = { readonly op: MicroOp; readonly stage: number; readonly microBatch: number };
export type StageAction = { readonly op: StageOp; readonly stage: number };
export type Action = MicroAction | StageAction;

/** An action and who does it. A stage's REDUCE, UPDATE and GATHER are done by several peers. */
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
  ...{ REDUCE: 7, UPDATE: 8, GATHER: 9 },
} as const satisfies Record<MicroOp | StageOp, number>;
const TEXT = /^(\d+)(F|R|B|SEND_F|RECV_F|SEND_B|RECV_B|REDUCE|UPDATE|GATHER)(\d*)$/;

export function formatAction(action: Action): string {
  return `${action.stage}${action.op}${'microBatch' in action ? action.microBatch : ''}`;
}

export function parseAction(text: string): Action {
  const action = readAction(text);
  invariant(action !== null, `"${text}" is no action`);
  return action;
}

/** Of a text that somebody else wrote; null: it is no action. */
export function readAction(text: string): Action | null {
  const [, stage, op, microBatch] = TEXT.exec(text) ?? [];
  if (op === undefined || MICRO_OPS.includes(op as MicroOp) !== (microBatch !== '')) return null;
  return microBatch === ''
    ? { op: op as StageOp, stage: Number(stage) }
    : { op: op as MicroOp, stage: Number(stage), microBatch: Number(microBatch) };
}

/** Work of the GPU on a micro-batch. */
export type ComputeAction = MicroAction & { readonly op: 'F' | 'R' | 'B' };
export const isCompute = (action: Action): action is ComputeAction =>
  action.op === 'F' || action.op === 'R' || action.op === 'B';

/** A transfer runs beside the peer's work: it takes no time of the peer's own. */
export const isTransfer = ({ op }: Action): boolean =>
  op === 'SEND_F' || op === 'RECV_F' || op === 'SEND_B' || op === 'RECV_B';

/** One line a peer: `a: 0F0 0F1 0B0 0B1`. */
export function formatSchedule(schedule: Schedule): string {
  return [...schedule].map(([peer, actions]) => `${peer}: ${actions.map(formatAction).join(' ')}`.trimEnd()).join('\n');
}

export function parseSchedule(text: string): Schedule {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return new Map(
    lines.map((line) => {
      const [peer, ...actions] = line.trim().split(/\s+/);
      invariant(peer?.endsWith(':'), `"${line}" starts with no peer`);
      return [peerId(peer.slice(0, -1)), actions.map(parseAction)];
    }),
  );
}
