/**
 * How long a piece of this donor's work takes when nothing else runs on the machine, before it was ever done: from the
 * layer times of the admission, which are measured alone, by the costs that the planner plans with.
 */
import { invariant, peerId } from '../../../swarm/base.ts';
import type { Profile } from '../../../swarm/messages.ts';
import type { Model } from '../../../swarm/model.ts';
import { clusterCosts } from '../../../swarm/planner/clusterCosts.ts';
import type { Train } from '../../../swarm/runFile.ts';

/** A stage's work on a micro-batch. */
export interface StageWork {
  readonly op: 'F' | 'B' | 'evaluation';
  /** Half-open. */
  readonly layers: readonly [number, number];
  /** How many of them are computed again in the backward. */
  readonly recomputed: number;
  readonly samples: number;
}

/** Seconds; null: unknown. */
export type Forecast = (work: StageWork) => number | null;

export const NO_FORECAST: Forecast = () => null;

export function forecastOf(model: Model, train: Train, times: Profile['layers']): Forecast {
  const [one, two] = times;
  if (!one) return NO_FORECAST;
  const measured = [one, ...(two ? [two] : [])];
  const costs = clusterCosts({
    model,
    batch: { samples: train.globalBatchSize, sequence: train.sequenceLength },
    cluster: {
      peers: [
        {
          ...{ id: peerId('this'), memoryBytes: 0, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
          measured: {
            forwardSecondsPerLayer: measured.map(({ forwardSeconds }) => forwardSeconds),
            backwardSecondsPerLayer: measured.map(({ backwardSeconds }) => backwardSeconds),
          },
        },
      ],
      links: { default: {}, regions: [], pairs: [] },
    },
  });
  const [peer] = costs.peers;
  invariant(peer, 'a cluster of one peer has one');
  return ({ op, layers: [from, to], recomputed, samples }) => {
    const shape = { first: from === 0, last: to === model.layers, layers: to - from };
    if (op === 'B') return costs.backwardSeconds(peer, shape, samples) + recomputed * costs.layerSeconds(peer, samples);
    // An evaluation has no gradient of the head.
    const headless = { ...shape, last: shape.last && op === 'F' };
    return costs.forwardSeconds(peer, headless, samples);
  };
}
