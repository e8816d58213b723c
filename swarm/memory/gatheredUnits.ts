/**
 * What a stage that gathers has whole at a time (ZeRO's third stage), and where it lies: each unit, a layer or what an end of
 * the model computes with, comes into one of the stage's places before it is computed with, and makes way for the next one
 * but one, or with one place for the next.
 */
import type { Range } from '../base.ts';
import { type Arena, arenaOfUse } from '../model/layout.ts';
import { type BlockUse, blocksOfStage, type Model } from '../model/model.ts';
import type { Gathered } from '../plan/plan.ts';
import type { Compute } from '../precision.ts';

/**
 * In the order of the forward. A tied table is gathered again for the head; in another stage than the first it is not at
 * home, and kept whole.
 */
export function unitsOf(model: Model, layers: Range, first: boolean): BlockUse[][] {
  const uses = blocksOfStage(model, layers);
  const table = model.blocks.find(({ name }) => name === 'embedding')?.tensors[0];
  return uses
    .filter(({ block: name }) => first || name !== 'embedding')
    .map((use) =>
      use.block === 'head' && first && model.tied && table
        ? [use, { block: 'embedding', ranges: [[table.offset, table.offset + table.elements]] }]
        : [use],
    );
}

/** The other blocks of such a stage: those that are not at home in it. */
export const wholeUses = (model: Model, layers: Range): BlockUse[] =>
  layers[0] === 0 ? [] : blocksOfStage(model, layers).filter(({ block }) => block === 'embedding');

/** Of the n-th unit: what follows `values/` or `gradients/` in the name of its buffer. */
export const placeName = (unit: number, gathered: Gathered): string => `gathered${unit % gathered}`;

/** Where the blocks of a unit lie in its place, one after the other. */
export function unitArenas(model: Model, uses: readonly BlockUse[], compute: Compute): Arena[] {
  let end = 0;
  return uses.map((use) => {
    const { segments, floats } = arenaOfUse(model, use, compute);
    const from = end;
    end += floats;
    return { segments: segments.map((segment) => ({ ...segment, at: segment.at + from })), floats: end };
  });
}

/** Floats (or halves) of each place, by its name: of the largest that comes there. */
export function gatheredPlaces(model: Model, layers: Range, gathered: Gathered, compute: Compute): Map<string, number> {
  const places = new Map<string, number>();
  for (const [unit, uses] of unitsOf(model, layers, layers[0] === 0).entries()) {
    const name = placeName(unit, gathered);
    const { floats = 0 } = unitArenas(model, uses, compute).at(-1) ?? {};
    places.set(name, Math.max(places.get(name) ?? 0, floats));
  }
  return places;
}
