/** The largest buffers of a run's stages, for peers whose GPUs do not take them all (bufferLimits.ts). */
import {
  type Batch,
  type BufferLimit,
  type Largest,
  largestOfRun,
  largestOfStage,
  neededOf,
  takes,
} from '../memory/bufferLimits.ts';
import type { Model } from '../model/model.ts';
import type { ClusterPeer } from './cluster.ts';

/** As a cluster file says it: who does not say what it binds binds whole buffers. */
export const bufferLimitOf = ({
  bufferBytes = Number.POSITIVE_INFINITY,
  bindingBytes = bufferBytes,
}: Pick<ClusterPeer, 'bufferBytes' | 'bindingBytes'>): BufferLimit => ({ bufferBytes, bindingBytes });

export function largestBuffers(model: Model, batch: Batch, peers: readonly ClusterPeer[]) {
  const isLimited = peers.some(({ bufferBytes, bindingBytes }) => (bufferBytes ?? bindingBytes) !== undefined);
  const most = isLimited ? neededOf(largestOfRun(model, batch)) : null;
  const known = new Map<number, Largest>();
  return {
    /** Without limits that nothing in this run is past. */
    relevant(peer: ClusterPeer): ClusterPeer {
      const { bufferBytes: _, bindingBytes: __, ...rest } = peer;
      return most === null || takes(bufferLimitOf(peer), most) ? rest : peer;
    },
    /** Layers are alike: how many a stage has changes none of its sizes. */
    ofStage({ first, last }: { readonly first: boolean; readonly last: boolean }, samples: number): Largest {
      const key = 4 * samples + (first ? 1 : 0) + (last ? 2 : 0);
      const from = first ? 0 : last ? model.layers - 1 : Math.min(1, model.layers - 1);
      const layers = first && last ? ([0, model.layers] as const) : ([from, from + 1] as const);
      const largest = known.get(key) ?? largestOfStage(model, batch, layers, samples);
      known.set(key, largest);
      return largest;
    },
  };
}
