/**
 * The plan that needs no measurement: as many pipeline stages as peers, whole layers, as equal as can be. A pure
 * function of the model, the step's samples and the order of the peers, so that a run done twice gives the same bits.
 * The first stages get the layers that do not divide: the last one has the head, a product over the whole vocabulary,
 * and never gets one more.
 */
import { evenRanges, invariant, type PeerId } from '../base.ts';
import type { Model } from '../model.ts';
import { homeStage, type Plan } from '../plan.ts';
import type { ScheduleName } from '../schedule/action.ts';

/** Enough micro-batches for a pipeline of this many stages to idle little, without making them tiny. */
const MICRO_BATCHES_PER_STAGE = 4;

export const defaultMicroBatches = (samples: number, stages: number): number =>
  Math.min(samples, MICRO_BATCHES_PER_STAGE * stages);

export function equalSplit(
  model: Pick<Model, 'layers' | 'blocks'>,
  samples: number,
  peers: readonly PeerId[],
  options: { readonly microBatches?: number; readonly schedule?: ScheduleName } = {},
): Plan {
  const stages = peers.length;
  invariant(stages >= 1 && stages <= model.layers, `${stages} stages do not fit ${model.layers} layers`);
  const parts = options.microBatches ?? defaultMicroBatches(samples, stages);
  invariant(parts >= 1 && parts <= samples, `${samples} samples do not make ${parts} micro-batches`);

  const microBatches = evenRanges(samples, parts).map((range, id) => ({ id, samples: range }));
  const ids = microBatches.map(({ id }) => id);
  const layers = evenRanges(model.layers, stages);
  const compute: Plan = {
    stages: peers.map((peer, stage) => ({
      layers: layers[stage] ?? [0, 0],
      members: [{ peer, microBatches: ids, samples, recompute: [] }],
    })),
    microBatches,
    state: [],
    schedule: options.schedule ?? 'gpipe',
  };
  const state = model.blocks.map(({ name, elements }) => {
    const keeper = peers[homeStage(compute, name)];
    invariant(keeper !== undefined, `${name} has no holder`);
    return { block: name, shards: [{ peer: keeper, range: [0, elements] as const, replicas: [] }] };
  });
  return { ...compute, state };
}
