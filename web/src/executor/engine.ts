/**
 * What the executor asks of a stage and of the shards of a peer: the interface between the order of work (executor) and
 * the arithmetic (web/src/gpu). Calls that compute only put work in the GPU's queue; values come back by Readings.
 */
import type { TokenDraw } from '../../../swarm/answers/drawToken.ts';
import type { Range } from '../../../swarm/base.ts';
import type { BlockName, BlockUse } from '../../../swarm/model/model.ts';
import type { StateKind } from '../../../swarm/plan/stateKinds.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';

/** Values (or the words of a packed tensor) on their way back from the GPU; `take` lends them for the length of the call. */
export interface Reading {
  take<T>(use: (values: Float32Array<ArrayBuffer>) => T | Promise<T>): Promise<T>;
}

/** The N rows of one micro-batch, window by window. */
export interface MicroTokens {
  readonly ids: Uint32Array;
  /** The id that each row is to predict; NO_TARGET where the row does not count. */
  readonly targets: Uint32Array;
  /** The row of its own window at which the example of each row begins; null: all begin with their window. */
  readonly firstRows: Uint32Array | null;
}

/** Rows of the stream that a stage is given: floats, or the words of a tensor that another peer packed. */
export interface Stream {
  readonly encoding: WireEncoding;
  readonly words: Float32Array<ArrayBuffer>;
}

/** The stage before or after, of the same peer: what it has of the micro-batch is copied from there and never leaves the GPU. */
export interface Neighbour {
  readonly stage: Stage;
}

export interface Stage {
  /**
   * Of a stage that gathers, in the order of its forward: what has to be there together. Forward and backward are done unit by
   * unit then, each after its values are written. Absent: all is there.
   */
  readonly units?: readonly (readonly BlockUse[])[] | undefined;
  /** Of a stage that has all, in the order of its forward, which can be done one by one: where some of it is still to come. */
  readonly blocks?: readonly BlockName[];
  /** Clears the gradients of a unit, which is computed with next. */
  clearUnit?(unit: number): void;
  writeUnit?(unit: number, block: BlockName, range: Range, values: Float32Array): void;
  /**
   * Clears the gradients, and what their packing left over: a new step begins. Its gradients are multiplied with
   * `lossScale`, and drawn by the step's number where their packing draws. `withLeftOver`: what the codes of the step before
   * missed of gradient sums is in them from the beginning. `counted`: rows of the whole step that count, or its pairs; absent: all.
   */
  begin(step: number, lossScale: number, withLeftOver?: boolean, counted?: number): void;
  /**
   * Takes the lowest slot that is free. `input` [N, C] where the stage is not the first. In an evaluation nothing is kept for a
   * backward, or past the next forward. `unit`: of those, or of `blocks`.
   */
  forward(work: ForwardWork, unit?: number): void;
  /** In a stage that recomputes layers: the first part of it, right before the micro-batch's backward. */
  recompute(microBatch: number): void;
  /** `gradient` [N, C] of the stage's output where it is not the last. `encoding`: how the input's gradient will be read. */
  backward(microBatch: number, gradient: Stream | Neighbour | null, encoding?: WireEncoding, unit?: number): void;
  /**
   * What the newest forward made, encoded as it was told to: packing is that work's own, and only a copy is left.
   * Resolves when it stands in the GPU's queue; until then the stage is given no other work.
   */
  readOutput(microBatch: number): Promise<Reading>;
  /** The same of the newest backward. */
  readInputGradient(microBatch: number): Promise<Reading>;
  /** Cross-entropy (nats) of each row of a micro-batch of the last stage; of a preference pair its loss, in its window's first row. */
  readLoss(microBatch: number): Promise<Reading>;
  /** Ranges of this stage's gradient sum of a block, one after the other, without gaps. */
  readGradient(block: BlockName, ranges: readonly Range[], unit?: number): Promise<Reading>;
  /** The same as int8 codes; what they miss is left over for the next step. One at a time. */
  packGradient(block: BlockName, range: Range): Promise<Reading>;
  /** In place of a range of this stage's gradient sum. */
  writeGradient(block: BlockName, range: Range, sums: Float32Array): void;
  writeValues(block: BlockName, range: Range, values: Float32Array): void;
  /** A range of a block whose weights stand. */
  writeStanding(block: BlockName, range: Range, values: Float32Array): void;
  /** Adds what int8 codes stand for. */
  addValues(block: BlockName, range: Range, codes: Float32Array): void;
  readValues(block: BlockName, range: Range): Promise<Reading>;
  /** Nobody needs what is kept of the micro-batch any more: its slot is free. */
  free(microBatch: number): void;
  /** Resolves when everything submitted so far is computed. */
  settled(): Promise<void>;
  readonly bytes: number;
  close(): void;
}

export interface ForwardWork {
  readonly microBatch: number;
  readonly samples: number;
  readonly input: Stream | Neighbour | null;
  readonly tokens: MicroTokens | null;
  readonly evaluation: boolean;
  /** How the output will be read: f32, or the encoding that the stage was made for; absent: nobody reads it. */
  readonly encoding?: WireEncoding | undefined;
}

export interface UpdateScalars {
  readonly learningRate: number;
  /** Factor on every gradient: of clipping, and out of the loss scale. */
  readonly clipScale: number;
  /** Updates done before this one, plus one: the exponent of the bias corrections. */
  readonly time: number;
}

/** The shards that this peer keeps, as primary or replica. `sums` are added in the order that the plan fixes (PL13). */
export interface Shards {
  readonly bytes: number;
  /** Of main memory, between steps. */
  readonly hostBytes: number;
  /** Forgets what an abandoned step added. */
  begin(): void;
  /** Adds this holder's part of a shard: from a stage of this peer, or received. In the plan's order, for each shard. */
  addOwn(block: BlockName, shard: Range, stage: Stage): void | Promise<void>;
  addReceived(
    block: BlockName,
    shard: Range,
    pieces: readonly { readonly range: Range; readonly values: Float32Array }[],
  ): void | Promise<void>;
  /** Sum of squares of each shard's gradient, in the order of the plan's state. */
  sumSquares(): Promise<readonly ShardNorm[]>;
  /**
   * On the GPU it stands in the queue when this returns. What is in main memory is updated beside what comes next, until this
   * resolves: whatever asks for a shard, or gives it something, waits for that shard.
   */
  update(scalars: UpdateScalars): void | Promise<void>;
  /** Until what a stage of this peer computes with of a block is what the newest update made; null: it is. */
  written?(stage: number, block: BlockName): Promise<void> | null;
  readValues(block: BlockName, range: Range): Promise<Reading>;
  /**
   * As int8 codes, what the holders of a primary's values lack of them and then have: here too, in the stage that computes
   * with the whole shard. One at a time.
   */
  packValues(block: BlockName, range: Range): Promise<Reading>;
  /** A copy of these kinds of a part of a shard, one after the other. */
  readState(block: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Float32Array<ArrayBuffer>>;
  /** Writes what the shards here keep of a range; values as what their holders have, too. */
  writeState(block: BlockName, range: Range, kind: StateKind, values: Float32Array): void;
  close(): void;
}

export interface ShardNorm {
  readonly block: BlockName;
  readonly range: Range;
  readonly sumSquares: number;
}

/** One row of a piece of answers: a position of a conversation. */
export interface AnswerRow {
  /** The token there; 0 where the stage is not the first. */
  readonly id: number;
  readonly position: number;
  /** The conversation's pages here, with room for this position. Rows of one conversation share the list. */
  readonly pages: readonly number[];
  /** How the token behind it is drawn; null: nobody asks. */
  readonly draw: TokenDraw | null;
}

/** A stage that answers beside its training: forwards of a few rows over the keys and values of conversations. */
export interface AnswerStage {
  readonly bytes: number;
  /** Puts a piece in the GPU's queue. `input` [rows, C] where the stage is not the first. */
  run(rows: readonly AnswerRow[], input: Float32Array<ArrayBuffer> | null): void;
  /** The stream of the newest piece's rows, for the next stage. */
  readOutput(): Promise<Reading>;
  /** The tokens drawn by the newest piece, in the order of its rows. */
  readTokens(): Promise<readonly number[]>;
  close(): void;
}
