/** What a donor keeps of islands, by the way in which they meet, and the costs that islands are planned with. */
import type { MeetingSettings } from '../islands/outer.ts';
import { FLOAT_BYTES, STATE_KINDS, stateKinds } from '../plan/stateKinds.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import type { CostsFor } from './islandTeam.ts';

/** How they meet: ranges have owners, or every primary sends its packets to every group. */
export type Way = 'owned' | 'toAll';
/** Of gradients there is a plane that is no kind of state. */
const UPDATED_BYTES = FLOAT_BYTES * (STATE_KINDS.length + 1);
/** Bytes an element beside value, gradient and moments. */
const planeBytes = ({ exchange, publish }: MeetingSettings, turns: number, way: Way): number =>
  FLOAT_BYTES * (1 + stateKinds({ count: turns, exchange, publish }, undefined, way === 'owned').length) -
  UPDATED_BYTES;

/** Other groups that a donor sends its packets to; null: it sends them to owners. About as many as there is memory for. */
export function othersOf(
  { peers, model, planeBytes: planes }: ClusterCosts,
  count: number | 'auto',
  way: Way,
): number | null {
  if (way === 'owned') return null;
  const elements = model.blocks.reduce((sum, block) => sum + block.elements, 0);
  const room = peers.reduce((sum, { memoryBytes, hostBytes }) => sum + memoryBytes + hostBytes, 0);
  const most = Math.min(peers.length, Math.floor(room / ((UPDATED_BYTES + planes) * elements)));
  return Math.max(0, Math.min(most, count === 'auto' ? most : count) - 1);
}

/** `kept` bytes of each element stay free while groups are sought. */
export function costsIn(problem: ClusterProblem, asked: MeetingSettings, way: Way, kept: number): CostsFor {
  const known = new Map<number, ReturnType<CostsFor>>();
  return (turns) => {
    const found = known.get(turns);
    if (found) return found;
    const bytes = planeBytes(asked, turns, way);
    const own = clusterCosts({ ...problem, planeBytes: bytes });
    const made = { own, planned: kept === 0 ? own : clusterCosts({ ...problem, planeBytes: bytes + kept }) };
    known.set(turns, made);
    return made;
  };
}
