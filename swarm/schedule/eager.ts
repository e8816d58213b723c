/**
 * Eager (AxoNN, Singh and Bhatele 2022): no order is fixed. A free peer takes what has arrived, backwards first, and
 * starts no forward past the bound of micro-batches in flight. With equal costs it takes as long as the order whose
 * bound it has; where links or peers waver it goes on with what is there. See SPEC.md, SC15.
 */
import type { PeerId } from '../base.ts';
import { NOTHING, type Policy } from './dispatch.ts';
import { microBatchQueue } from './messageDriven.ts';

export const eager =
  (bounds: ReadonlyMap<PeerId, number>): Policy =>
  ({ graph }) => {
    const peers = graph.peers.map((peer) => ({
      bound: bounds.get(peer) ?? 0,
      inFlight: 0,
      forwards: microBatchQueue(graph),
      backwards: microBatchQueue(graph),
    }));
    const peerAt = (work: number) => peers[graph.peerOf[work] ?? -1];
    return {
      ready(work) {
        const peer = peerAt(work);
        if (graph.actions[work]?.op === 'B') peer?.backwards.add(work);
        else peer?.forwards.add(work);
      },
      ended(work) {
        const peer = peerAt(work);
        if (peer && graph.actions[work]?.op === 'B') peer.inFlight--;
      },
      next(index) {
        const peer = peers[index];
        if (!peer) return NOTHING;
        const backward = peer.backwards.first();
        if (backward !== undefined) {
          peer.backwards.remove(backward);
          return backward;
        }
        const forward = peer.forwards.first();
        if (forward === undefined || peer.inFlight >= peer.bound) return NOTHING;
        peer.forwards.remove(forward);
        peer.inFlight++;
        return forward;
      },
    };
  };
