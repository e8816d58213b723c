/**
 * The stages of schedules with owner tables of their own, donors being equals as in the equal split: interleaved and
 * breadth-first loop over the donors, each having `chunks` stages; chimera has as many stages as donors, each held twice
 * for each of `pairs` (plan/ownerTable.ts). How many micro-batches they make unless told, and why a run cannot have them.
 */
import { at, type PeerId } from '../base.ts';
import type { Model } from '../model/model.ts';
import { chimeraMisfit, interleavedMisfit, pipelineOf, seatOf } from '../plan/ownerTable.ts';
import type { MicroBatch, ScheduleName } from '../plan/plan.ts';
import { counted } from '../quantityText.ts';

export const DEFAULT_CHUNKS = 2;
export const DEFAULT_PAIRS = 1;

/** What a command line says of them. */
export interface OwnedOptions {
  readonly schedule?: ScheduleName;
  readonly stages?: number;
  readonly microBatches?: number;
  /** Stages of each donor, of interleaved and breadth-first; 2 where absent. */
  readonly chunks?: number;
  /** Of chimera; 1 where absent. */
  readonly pairs?: number;
}

const isLooped = ({ schedule }: OwnedOptions): boolean => schedule === 'interleaved' || schedule === 'breadth-first';

/** How many stages such a schedule has; null: it has none of its own. */
export function ownedStages(donors: number, options: OwnedOptions): number | null {
  if (isLooped(options)) return donors * (options.chunks ?? DEFAULT_CHUNKS);
  return options.schedule === 'chimera' ? donors : null;
}

/** Micro-batches come in multiples of so many. */
export const microBatchUnit = (donors: number, { schedule }: OwnedOptions): number =>
  schedule === 'interleaved' || schedule === 'chimera' ? donors : 1;

/** Who has each stage, with which micro-batches. */
export function ownedCrews(
  peers: readonly PeerId[],
  stages: number,
  microBatches: readonly MicroBatch[],
  { schedule, pairs = DEFAULT_PAIRS }: OwnedOptions,
): { readonly peer: PeerId; readonly carried: readonly MicroBatch[] }[][] {
  const p = peers.length;
  return Array.from({ length: stages }, (_, stage) => {
    if (schedule !== 'chimera') return [{ peer: at(peers, stage % p), carried: microBatches }];
    return Array.from({ length: 2 * pairs }, (_, pipeline) => ({
      peer: at(peers, seatOf(p, pairs, pipeline, stage)),
      carried: microBatches.filter((_, place) => pipelineOf(p, pairs, place) === pipeline),
    }));
  });
}

/** Why these donors cannot have such a schedule, with what would do; null: they can, or it is another schedule. */
export function ownedProblem(
  { layers }: Pick<Model, 'layers'>,
  samples: number,
  donors: number,
  options: OwnedOptions,
): string | null {
  const { schedule, chunks = DEFAULT_CHUNKS, pairs = DEFAULT_PAIRS, microBatches } = options;
  const stages = ownedStages(donors, options);
  if (stages === null) return null;
  if (options.stages !== undefined && options.stages !== stages)
    return `${schedule} of ${counted(donors, 'donor')} has ${stages} stages, not ${options.stages}: leave out --stages`;
  const unit = microBatchUnit(donors, options);
  if (schedule === 'chimera') {
    const misfit = chimeraMisfit(donors, unit, pairs);
    if (misfit !== null) return `${misfit.replace('peers', 'donors')}: ${chimeraAdvice(donors)}`;
  }
  if (stages > layers)
    return `${schedule} of ${counted(donors, 'donor')} has ${stages} stages, more than the ${layers} layers: ${fewerStages(layers, donors, schedule, chunks)}`;
  if (microBatches === undefined)
    return samples < unit
      ? `${schedule} needs as many micro-batches as donors, and ${samples} samples do not make ${unit}: at most ${samples} donors would do`
      : null;
  const misfit = schedule === 'breadth-first' ? null : interleavedMisfit(donors, microBatches);
  if (misfit === null) return null;
  const below = microBatches - (microBatches % unit);
  return `${misfit.replace('interleaved', schedule ?? '').replace('peers', 'donors')}: ${below > 0 ? below : unit} would do`;
}

const chimeraAdvice = (donors: number): string =>
  donors % 2 === 0
    ? `--pairs ${Array.from({ length: donors / 2 }, (_, index) => index + 1)
        .filter((pairs) => (donors / 2) % pairs === 0)
        .join(' or ')} would do`
    : `${donors - 1 > 0 ? `${donors - 1} or ` : ''}${donors + 1} would do`;

function fewerStages(layers: number, donors: number, schedule: OwnedOptions['schedule'], chunks: number): string {
  if (schedule === 'chimera') return `${layers - (layers % 2)} donors would do`;
  const fewer = Math.min(chunks, Math.floor(layers / donors));
  return fewer >= 1 ? `--chunks ${fewer} would do` : `at most ${layers} donors would do, with --chunks 1`;
}
