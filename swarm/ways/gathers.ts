/**
 * What the members of a stage that gathers send each other for each pass of a micro-batch, or of all of a member's: a word that asks for a unit, the values of
 * it that each primary has, and each keeper's part of its gradient, as soon as that stands. Both ends derive the same list.
 */
import { at, type PeerId } from '../base.ts';
import { unitsOf } from '../memory/memory.ts';
import { slices } from '../model/layout.ts';
import type { BlockUse, Model } from '../model/model.ts';
import { passesOf } from '../plan/layered.ts';
import { keepersOf, type Plan, type Shard } from '../plan/plan.ts';
import type { Passage, TensorName } from './passage.ts';

/** Places of a model's units among the numbers of one pass: two blocks each, of two thousand layers. */
const UNIT_PLACES = 4_096;

/** Forward, backward, and the forward of an evaluation, which makes no gradients. */
const PASSES = ['F', 'B', 'evaluation'] as const;

/** One time that a stage's unit is computed with. */
export interface Occasion {
  readonly stage: number;
  /** The lowest of the pass; in an evaluation its number among those of all rounds (`evaluatedNumber`). */
  readonly microBatch: number;
  readonly pass: (typeof PASSES)[number];
  readonly unit: number;
}

/** The same of each micro-batch: who may send a tensor has one for all. */
export const withoutOccasion = (index: number): number => index % UNIT_PLACES;

const indexOf = ({ microBatch, pass, unit }: Occasion, part: number): number =>
  (PASSES.length * microBatch + PASSES.indexOf(pass)) * UNIT_PLACES + 2 * unit + part;

/** Of a micro-batch in a round of an evaluation: rounds follow each other, and a member may be a round ahead. */
export const evaluatedNumber = ({ microBatches }: Plan, microBatch: number, round: number): number =>
  round * microBatches.length + microBatches.findIndex(({ id }) => id === microBatch);

export const wantTensor = (occasion: Occasion): TensorName => ({
  ...{ kind: 'want', stage: occasion.stage, index: indexOf(occasion, 0), range: [0, 1] },
});

/** A part of a shard: its values, or the gradient of one pass. */
interface GatheredPart {
  readonly part: number;
  readonly use: BlockUse;
  readonly shard: Shard;
  readonly tensor: TensorName;
}

/** Of all shards of a unit, piece by piece, in order. */
export function gatheredParts(
  { state }: Pick<Plan, 'state'>,
  uses: readonly BlockUse[],
  kind: 'gathered' | 'share',
  occasion: Occasion,
): GatheredPart[] {
  return uses.flatMap((use, part) =>
    (state.find(({ block }) => block === use.block)?.shards ?? []).flatMap((shard) =>
      slices(use, shard.range).map((range) => ({
        ...{ part, use, shard },
        tensor: { kind, stage: occasion.stage, index: indexOf(occasion, part), range },
      })),
    ),
  );
}

/** When a stage's units are there for a micro-batch, or for all that pass with it, in the order of work: the embedding's and the head's once, others twice. */
export function occasionsOf(units: readonly (readonly BlockUse[])[], stage: number, microBatch: number): Occasion[] {
  const isHead = (unit: number): boolean => at(at(units, unit), 0).block === 'head';
  const forward = Array.from(units.keys(), (unit): Occasion => ({ stage, microBatch, pass: 'F', unit }));
  const backward = forward.map(({ unit }): Occasion => ({ stage, microBatch, pass: 'B', unit })).toReversed();
  return [...forward, ...backward.filter(({ unit }) => !isHead(unit))];
}

/** The same in an evaluation, where all of them are there once. */
export const evaluatedOccasions = (
  units: readonly (readonly BlockUse[])[],
  stage: number,
  microBatch: number,
): Occasion[] => Array.from(units.keys(), (unit) => ({ stage, microBatch, pass: 'evaluation', unit }));

/** The embedding's backward needs no values. */
export const needsValues = (units: readonly (readonly BlockUse[])[], { pass, unit }: Occasion): boolean =>
  pass !== 'B' || at(at(units, unit), 0).block !== 'embedding';

/** The head's gradient is made with its forward. */
export const makesGradient = (units: readonly (readonly BlockUse[])[], { pass, unit }: Occasion): boolean =>
  pass === 'B' || (pass === 'F' && at(at(units, unit), 0).block === 'head');

/** Everything that gathering sends in a step. */
export function gatherTensors(model: Model, plan: Plan): Passage[] {
  return plan.stages.flatMap((planned, stage) => {
    const { layers, members, gathered } = planned;
    if (!gathered) return [];
    const units = unitsOf(model, layers, layers[0] === 0);
    return members.flatMap((member) =>
      passesOf(planned, member).flatMap((pass) =>
        occasionsOf(units, stage, at(pass, 0)).flatMap((occasion) => passagesOf(plan, units, member.peer, occasion)),
      ),
    );
  });
}

function passagesOf(plan: Plan, units: readonly (readonly BlockUse[])[], me: PeerId, occasion: Occasion): Passage[] {
  const uses = at(units, occasion.unit);
  const values = needsValues(units, occasion) ? gatheredParts(plan, uses, 'gathered', occasion) : [];
  const from = new Set(values.map(({ shard }) => shard.peer).filter((peer) => peer !== me));
  const shares = makesGradient(units, occasion) ? gatheredParts(plan, uses, 'share', occasion) : [];
  return [
    ...Array.from(from, (to) => ({ from: me, to, tensor: wantTensor(occasion) })),
    ...values.flatMap(({ shard, tensor }) => (shard.peer === me ? [] : { from: shard.peer, to: me, tensor })),
    ...shares.flatMap(({ shard, tensor }) =>
      keepersOf(shard).flatMap((to) => (to === me ? [] : { from: me, to, tensor })),
    ),
  ];
}
