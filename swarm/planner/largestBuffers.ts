/** The largest buffers of a run's stages, for peers whose GPUs do not take them all (bufferLimits.ts). */
import { type Batch, largestOfRun, largestOfStage } from '../memory/bufferLimits.ts';
import type { Model } from '../model/model.ts';
import type { ClusterPeer } from './cluster.ts';

export function largestBuffers(model: Model, batch: Batch, peers: readonly ClusterPeer[]) {
  const isLimited = peers.some(({ bufferBytes }) => bufferBytes !== undefined);
  const most = isLimited ? largestOfRun(model, batch).bytes : 0;
  const known = new Map<number, number>();
  return {
    /** Without a limit that nothing in this run is past. */
    relevant({ bufferBytes, ...peer }: ClusterPeer): ClusterPeer {
      return bufferBytes === undefined || bufferBytes >= most ? peer : { ...peer, bufferBytes };
    },
    /** Bytes. Layers are alike: how many a stage has changes none of its sizes. */
    ofStage({ first, last }: { readonly first: boolean; readonly last: boolean }, samples: number): number {
      const key = 4 * samples + (first ? 1 : 0) + (last ? 2 : 0);
      const from = first ? 0 : last ? model.layers - 1 : Math.min(1, model.layers - 1);
      const layers = first && last ? ([0, model.layers] as const) : ([from, from + 1] as const);
      const bytes = known.get(key) ?? largestOfStage(model, batch, layers, samples).bytes;
      known.set(key, bytes);
      return bytes;
    },
  };
}
