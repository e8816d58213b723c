/** The outside world, as a step of one peer sees it: everything that a step waits for, and everything it says. */
import type { PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import type { MeasuredLinks } from '../../../swarm/messages/profile.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import type { BesideSpan } from '../../../swarm/timeline/beside.ts';
import type { Throttle } from './dutyCycle.ts';
import type { MicroTokens, UpdateScalars } from './engine.ts';

export type Receive = (key: TensorKey, from: PeerId) => Promise<Float32Array<ArrayBuffer>>;

export interface Surroundings extends MeasuredLinks {
  readonly signal: AbortSignal;
  now(): number;
  /** Every piece of GPU work goes through it. */
  readonly throttle: Throttle;
  /** What this step's gradients are multiplied with: 1 where the run does not ask for f16. */
  readonly lossScale: number;
  /** Rows of the whole step that count; absent: all. */
  readonly counted?: number | undefined;
  /** Resolves when the link has taken the whole tensor; `turn`: it goes after that, and resolves when it has left. */
  send(to: PeerId, key: TensorKey, values: Float32Array, turn?: Promise<unknown>): Promise<void>;
  readonly receive: Receive;
  /** As `receive`, of what may come at any time: nothing stands still for it. Absent: as `receive`. */
  readonly collect?: Receive;
  /** The step stands still until this peer sends something. */
  awaited?(from: PeerId, coming: Promise<void>): Promise<void>;
  /** Tokens of the samples of a micro-batch. */
  tokens(microBatch: number): Promise<MicroTokens>;
  /** Windows hold examples: every stage asks where their rows begin. Absent: the first and the last stage ask alone. */
  readonly hasExamples?: boolean;
  /** Under a plan that is audited: digests of what this step sent and got, once all of it has. */
  commitments?(): Promise<string[]>;
  report(message: ReportMessage): void;
  /** The GPU has done this. */
  computed?(action: ComputeAction): void;
  /** Beside the list: until then its GPU has not done this. */
  readingBack?(read: Promise<unknown>): void;
  /** What this donor did behind its report of the step before, as far as it is over; null: nothing, or it was told. */
  behind?(): ReportMessage['behind'] | null;
  /** This step is the last one of an island's turn; absent: it is not. */
  readonly endsTurn?: boolean;
  /** Of this step, after its report; and after its end what only then is over. */
  didBehind?(span: BesideSpan): void;
  /** The server's answer to this step. */
  committed(): Promise<UpdateScalars>;
}
