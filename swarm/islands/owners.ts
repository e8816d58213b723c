/**
 * Who owns which range of the model at meetings, and who has the same beside it, the copy. Owners have one contiguous range
 * each, in the order of their names. Copies go round in the same order from the middle of it on, so that those of one owner lie
 * with others; who owns a place is never its copy.
 */
import { at, type PeerId, type Range, totalOf } from '../base.ts';
import type { Block, BlockName, Model } from '../model/model.ts';
import { cutUpTo } from '../plan/shardCuts.ts';
import type { MeetingSettings } from './outer.ts';
import { type OwnerLine, sharesOf } from './ownerShares.ts';

/** A range with its owner, then its copy, if there is more than one donor. */
export interface Owned {
  readonly block: BlockName;
  readonly range: Range;
  readonly peers: readonly PeerId[];
}

/** Elements of the model in a row that have the same owner and copy, by their places among donors. */
interface Stretch {
  readonly to: number;
  readonly peers: readonly number[];
}

/** Of elements: sums of shares are no more exact than that. */
const NOTHING = 1e-3;

/**
 * The ranges cover the model and begin where a run and a block of codes do; their shares are those of the least time. Empty
 * where no line carries anything.
 */
export function ownersOf(
  { blocks }: Pick<Model, 'blocks'>,
  settings: Pick<MeetingSettings, 'exchange' | 'publish'>,
  lines: readonly (OwnerLine & { readonly peer: PeerId })[],
): Owned[] {
  const sorted = lines.toSorted((a, b) => (a.peer < b.peer ? -1 : 1));
  const { owned, copied } = sharesOf(sorted) ?? { owned: [], copied: [] };
  const elements = totalOf(blocks, (block) => block.elements);
  const stretches = stretchesOf(
    elements,
    owned.map((share) => share * elements),
    copied.map((share) => share * elements),
  );
  const ends = blocks.map((block, i) => blocks.slice(0, i).reduce((sum, own) => sum + own.elements, block.elements));
  return blocks.flatMap((block, i) => {
    const first = at(ends, i) - block.elements;
    let from = 0;
    return stretches.flatMap(({ to, peers }): Owned[] => {
      const range = [from, Math.max(from, cutIn(block, settings, to - first))] as const;
      from = range[1];
      return range[0] === range[1]
        ? []
        : [{ block: block.name, range, peers: peers.map((place) => at(sorted, place).peer) }];
    });
  });
}

/** The last place up to this one, which may lie outside the block, where a range may end. */
function cutIn(block: Block, settings: Pick<MeetingSettings, 'exchange' | 'publish'>, place: number): number {
  if (place >= block.elements) return block.elements;
  return place <= 0 ? 0 : cutUpTo(block, settings, Math.round(place));
}

/** `owned`, `copied`: elements of each donor. The last one ends the model. */
function stretchesOf(elements: number, owned: readonly number[], copied: readonly number[]): Stretch[] {
  const left = [...copied];
  const found: Stretch[] = [];
  let next = middleOf(elements, owned);
  let [from, end] = [0, 0];
  for (const [owner, own] of owned.entries()) {
    end += own;
    while (end - from > NOTHING) {
      const rest = elements - from;
      // How much of the rest each of the others can do without: what it owns itself it cannot be the copy of.
      const spare = (donor: number) => rest - (donor > owner ? at(owned, donor) : 0) - at(left, donor);
      const may = [...left.keys()].filter((donor) => donor !== owner && at(left, donor) > NOTHING);
      const urgent = may.find((donor) => spare(donor) <= NOTHING);
      const copy = urgent ?? may.find((donor) => donor >= next) ?? may[0] ?? (owner + 1) % owned.length;
      const spares = may.filter((donor) => donor !== copy).map(spare);
      const until = Math.min(...spares.filter((elementsLeft) => elementsLeft > NOTHING));
      const length = Math.min(end - from, until, may.length > 0 ? at(left, copy) : end - from);
      left[copy] = at(left, copy) - length;
      if (urgent === undefined) next = copy;
      from += length;
      const peers = copy === owner ? [owner] : [owner, copy];
      if (found.at(-1)?.peers.join() === peers.join()) found.pop();
      found.push({ to: from, peers });
    }
  }
  const last = found.pop();
  return last ? [...found, { ...last, to: Infinity }] : [];
}

/** Who owns the middle of the model. */
function middleOf(elements: number, owned: readonly number[]): number {
  let end = 0;
  return owned.findIndex((own) => {
    end += own;
    return end > elements / 2;
  });
}
