/**
 * What a donor owns of what all islands share, whatever it computes or keeps of the run otherwise: plans come and go beside
 * it. Rules IS in SPEC.md.
 */
import { overlap, type Range } from '../../../swarm/base.ts';
import { SHARED_KINDS, type SharedKind } from '../../../swarm/plan/stateKinds.ts';

interface Part {
  readonly block: string;
  readonly range: Range;
}

/** Of a range. */
export interface OwnedPlanes extends Part, Readonly<Record<SharedKind, Float32Array>> {}

export const emptyPlanes = ({ block, range }: Part): OwnedPlanes => {
  const plane = (): Float32Array => new Float32Array(range[1] - range[0]);
  return { block, range, shared: plane(), velocity: plane(), published: plane() };
};

export class OwnedStore {
  #all: readonly OwnedPlanes[] = [];

  /** Of main memory. */
  get bytes(): number {
    return this.#all.reduce((sum, one) => sum + SHARED_KINDS.length * one.shared.byteLength, 0);
  }

  /** Exactly these from now on. */
  become(all: readonly OwnedPlanes[]): void {
    this.#all = all;
  }

  /** Copies; ranges may have been cut otherwise. */
  copyOf(part: Part): OwnedPlanes {
    const found = emptyPlanes(part);
    let elements = 0;
    for (const one of this.#all) elements += copyPart(one, found, SHARED_KINDS);
    const { block, range } = part;
    if (elements !== range[1] - range[0])
      throw new Error(`what islands share of ${block} [${range.join(', ')}) is not here`);
    return found;
  }
}

/** Of a range, some of it. */
export type PartialPlanes = Part & { readonly [Kind in SharedKind]?: Float32Array };

/** What two have in common; how many elements that is. */
export function copyPart(from: PartialPlanes, to: PartialPlanes, kinds: readonly SharedKind[]): number {
  const part = from.block === to.block ? overlap(from.range, to.range) : null;
  if (!part) return 0;
  for (const kind of kinds) {
    const own = from[kind]?.subarray(part[0] - from.range[0], part[1] - from.range[0]);
    if (own) to[kind]?.set(own, part[0] - to.range[0]);
  }
  return part[1] - part[0];
}
