/**
 * What an audit looks at, and what it finds: everything that one member computed at one stage in one step, from the tensors
 * that it and its neighbours have committed to.
 */
import type { Range } from '../base.ts';
import type { BlockName, Model } from '../model/model.ts';
import type { WindowRows } from '../run/data.ts';
import type { WireEncoding } from '../wire.ts';

/** Elements of a block. */
export interface BlockPart {
  readonly block: BlockName;
  readonly range: Range;
  readonly values: Float32Array;
}

/** A tensor of the stream as it was sent: its floats, or the words of a packed one. */
export interface SentTensor {
  readonly encoding: WireEncoding;
  readonly words: Float32Array;
}

/** One micro-batch of the audited member. Rows are its samples' positions, sample by sample. */
export interface AuditedMicroBatch {
  readonly id: number;
  readonly samples: number;
  /** Its rows' ids, targets and first rows, side by side; null: the stage is neither first nor last, and each row sees its whole window. */
  readonly tokens: WindowRows | null;
  /** As it came from the stage before; null: the stage is the first one. */
  readonly input: SentTensor | null;
  /** Of its output, as it came from the stage after; null: the stage is the last one. */
  readonly gradient: SentTensor | null;
  /** As the member sent it; null: there is none, or it is not compared. */
  readonly output: SentTensor | null;
  /** Of its input, as the member sent it; null: there is none, or it is not compared. */
  readonly inputGradient: SentTensor | null;
  /** Sum of the cross-entropy of its rows that count, or of its pairs' losses; null: the stage is not the last one, or it is not compared. */
  readonly lossSum: number | null;
}

export interface AuditCase {
  readonly model: Model;
  /** Of the stage; where it is [0, …) the embedding is its too, where it ends with the last layer the head. */
  readonly layers: Range;
  readonly sequence: number;
  /** Honest differences of the member's kind of adapter are known; else only what is a thousandth off is wrong for certain. */
  readonly isMeasured: boolean;
  /** Of all blocks of the stage, as they stood in the step; their parts join to whole blocks. */
  readonly values: readonly BlockPart[];
  /** With an adapter: of all blocks of the stage that stand, likewise; else none. */
  readonly standing: readonly BlockPart[];
  /** By which gradients are multiplied before they become halves or int4: `gradientGain` of B·T, all rows of the step. */
  readonly gain: number;
  /** Rows of the whole step that count, or its preference pairs. */
  readonly counted: number;
  /** All that the member did at the stage in this step, in the order of its backwards. */
  readonly microBatches: readonly AuditedMicroBatch[];
  /** The member's gradient sums over its micro-batches, as float32; empty: they are not compared. */
  readonly sums: readonly BlockPart[];
}

/** A tensor of the member. `microBatch` null: its gradient sums. */
export interface AuditedTensor {
  readonly what: 'output' | 'input gradient' | 'loss' | 'gradient sum';
  readonly direction: 'F' | 'B';
  readonly microBatch: number | null;
  /** L2 of the difference over L2 of what float64 has; infinite where a number is not finite. */
  readonly relative: number;
  /** Above this size it is wrong. */
  readonly bound: number;
}

export interface AuditOutcome {
  readonly agrees: boolean;
  /** The one that is the most above its bound, or nearest to it; null: nothing was compared. */
  readonly worst: AuditedTensor | null;
  /** One sentence. */
  readonly evidence: string;
}
