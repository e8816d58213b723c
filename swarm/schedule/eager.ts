/**
 * Eager (AxoNN, Singh and Bhatele 2022): no order is fixed. A free peer takes what has arrived, backwards first, and
 * starts no forward past the bound of micro-batches in flight. With equal costs it takes as long as the order whose
 * bound it has; where links or peers waver it goes on with what is there. See SPEC.md, SC15.
 */
import { at, got, type PeerId } from '../base.ts';
import { microBatchQueue } from './messageDriven.ts';
import { NOTHING, type Policy } from './policy.ts';

export const eager =
  (bounds: ReadonlyMap<PeerId, number>): Policy =>
  ({ graph }) => {
    const peers = graph.peers.map((peer) => ({
      bound: got(bounds, peer),
      inFlight: 0,
      forwards: microBatchQueue(graph),
      backwards: microBatchQueue(graph),
    }));
    const peerOf = (work: number) => at(peers, at(graph.peerOf, work));
    return {
      ready(work) {
        const { backwards, forwards } = peerOf(work);
        if (at(graph.actions, work).op === 'B') backwards.add(work);
        else forwards.add(work);
      },
      ended(work) {
        if (at(graph.actions, work).op === 'B') peerOf(work).inFlight--;
      },
      next(index) {
        const peer = at(peers, index);
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
