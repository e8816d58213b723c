/** What a plan does otherwise than the one before it to save memory, in words for who watches: null where nothing of that changes. */
import { gathersAny, type Plan } from './plan.ts';

export function placesChanged(before: Plan, after: Plan): string | null {
  const texts = [gathering(before, after), mainMemory(before, after)].filter((text) => text !== null);
  return texts.length > 0 ? texts.join(', ') : null;
}

function gathering(before: Plan, after: Plan): string | null {
  const [had, has] = [before, after].map(({ stages }) => gathersAny(stages));
  if (had !== has) return has ? 'layers are gathered from now on' : 'layers are gathered no longer, but kept whole';
  const [wasLayered, isLayered] = [before, after].map(({ stages }) => stages.some(({ layered }) => layered));
  if (wasLayered === isLayered) return null;
  return isLayered
    ? 'layers are gathered once a pass from now on'
    : 'layers are gathered for each micro-batch from now on';
}

function mainMemory(before: Plan, after: Plan): string | null {
  const [had, has] = [before, after].map(inHost);
  if (had === has) return null;
  return has ? 'state lies in main memory from now on' : 'state lies in main memory no longer';
}

const inHost = ({ state }: Plan): boolean => state.some(({ shards }) => shards.some((shard) => shard.in === 'host'));
