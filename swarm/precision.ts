/**
 * How a donor computes. The run file's `precision.compute` asks; a donor whose adapter has shader-f16 then keeps its
 * activations and the weights that it computes with as halves, every other donor of the run computes in f32, and both
 * take part in the same steps: what goes from peer to peer is the same. Sums, master values and moments are float32
 * everywhere. Rules MP in SPEC.md.
 *
 * The gradients of a run that asks for f16 are multiplied with a loss scale, so that small ones do not vanish as halves:
 * the loss's gradient takes it in, the clip scale takes it out again. A step whose gradient overflows is done again at
 * half the scale; many sound steps in a row double it.
 */
export const COMPUTE_PRECISIONS = ['f32', 'f16'] as const;
export type Compute = (typeof COMPUTE_PRECISIONS)[number];

/** Of an activation, or of a weight that is computed with. */
export const ELEMENT_BYTES: Readonly<Record<Compute, number>> = { f32: 4, f16: 2 };

/** What a donor does in a run that asks for this. */
export const computeOf = (asked: Compute, hasHalves: boolean): Compute => (hasHalves ? asked : 'f32');

export interface LossScale {
  /** A power of two. */
  readonly scale: number;
  /** Steps committed with it. */
  readonly sound: number;
}

export const FIRST_LOSS_SCALE: LossScale = { scale: 2 ** 16, sound: 0 };
/** As torch.amp.GradScaler grows. */
const SOUND_STEPS = 2_000;
const LARGEST_SCALE = 2 ** 24;

export function afterCommit({ scale, sound }: LossScale): LossScale {
  if (sound + 1 < SOUND_STEPS || scale === LARGEST_SCALE) return { scale, sound: sound + 1 };
  return { scale: 2 * scale, sound: 0 };
}

/** Null where there is nothing left to halve: then it is no overflow of a scaled gradient. */
export const afterOverflow = ({ scale }: LossScale): LossScale | null =>
  scale > 1 ? { scale: scale / 2, sound: 0 } : null;
