/**
 * What a member commits to in a step of a plan that is audited: a digest of each activation, gradient and slice that it sends
 * or gets, told with its report. Its streams are kept until the step is committed, in main memory: until then nobody knows
 * which of them are asked for. Rules AU in SPEC.md.
 */
import { got, type PeerId } from '../../../swarm/base.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { Passage } from '../../../swarm/ways/passage.ts';
import { digestOf } from './slices.ts';

interface Commitment {
  readonly digest: Promise<string>;
  readonly settle: (digest: Promise<string>) => void;
  /** Of a stream, once it was there. */
  kept: Float32Array<ArrayBuffer> | null;
}

export class Commitments {
  /** By tensor and sender, in the plan's order: a slice that goes to several keepers is there for each. */
  readonly #names: readonly string[];
  readonly #known = new Map<string, Commitment>();

  /** `passages`: those that this peer has a part in. */
  constructor(passages: readonly Passage[], at: Pick<TensorKey, 'epoch' | 'step'>) {
    this.#names = passages.map(({ from, tensor }) => nameOf({ ...tensor, ...at }, from));
    for (const name of this.#names) if (!this.#known.has(name)) this.#known.set(name, unsettled());
  }

  /** A tensor on its way; sent values are lent, received ones belong to whoever takes them. */
  look(key: TensorKey, values: Float32Array, from: PeerId, isLent: boolean): void {
    const commitment = this.#known.get(nameOf(key, from));
    if (!commitment) return;
    commitment.settle(digestOf(values as Float32Array<ArrayBuffer>));
    if (key.kind !== 'slice') commitment.kept = isLent ? values.slice() : (values as Float32Array<ArrayBuffer>);
  }

  /** Once all have gone or come. */
  digests(): Promise<string[]> {
    return Promise.all(this.#names.map((name) => got(this.#known, name).digest));
  }

  /** Null: nothing of it is kept. */
  kept(key: TensorKey, from: PeerId): Float32Array<ArrayBuffer> | null {
    return this.#known.get(nameOf(key, from))?.kept ?? null;
  }
}

const nameOf = (key: TensorKey, from: PeerId): string => `${keyText(key)} from ${from}`;

function unsettled(): Commitment {
  let settle: Commitment['settle'] = () => undefined;
  const digest = new Promise<string>((resolve) => {
    settle = resolve;
  });
  return { digest, settle, kept: null };
}
