/** What may go wrong in a simulation, to whom, and at which point: the n-th time that something arrives or is stored. */
import { at, type Random } from '../../../../swarm/base.ts';
import type { Simulation } from './simulation.ts';
import type { Tab } from './tab.ts';

export const HARMS = [
  'kill',
  'vanish',
  'hang',
  'freeze',
  'loseDevice',
  'cutOff',
  'slow',
  'loseLinks',
  'loseSocket',
  'killServer',
  'fillDisk',
  'jumpClock',
  'leave',
  'join',
] as const;
export type Harm = (typeof HARMS)[number];

export const ROLES = ['first', 'middle', 'last', 'stateOnly', 'replica'] as const;
export type Role = (typeof ROLES)[number];

/** Harms that are nobody's own. */
export const OF_ALL: readonly Harm[] = ['killServer', 'fillDisk', 'join'];

export interface Mischief {
  readonly harm: Harm;
  readonly whom: Role;
  /** As `Simulation` tells it; ANY: whatever it is. */
  readonly point: string;
  /** From 1. */
  readonly nth: number;
}

export const ANY = '*';

const FROZEN_MS = [3_000, 10_000, 60_000];
const CUT_MS = [2_000, 8_000, 30_000];
/** Back at once, in time, and too late. */
const SOCKET_LOST_MS = [0, 2_000, 8_000];
const FULL_MS = 20_000;
const JUMP_MS = 3_600_000;
const SLOW_FACTOR = 10;

/** Told of each point: does what is planned when it is reached. */
export function mischiefs(planned: readonly Mischief[], random: Random) {
  const counts = new Map<string, number>();
  return (swarm: Simulation, point: string): void => {
    for (const of of [point, ANY]) {
      const count = (counts.get(of) ?? 0) + 1;
      counts.set(of, count);
      for (const one of planned) if (one.point === of && one.nth === count) harm(swarm, one, random);
    }
  };
}

/** Null: the plan has nobody in that role. */
function victim({ server, tabs, tabOf }: Simulation, whom: Role): Tab | null {
  const { plan } = server.run.store;
  const living = tabs.filter(({ hasEnded }) => !hasEnded);
  if (plan === null) return living[['first', 'middle', 'last', 'stateOnly', 'replica'].indexOf(whom)] ?? null;
  const { stages, state } = plan;
  const shards = state.flatMap((block) => block.shards);
  const members = new Set(stages.flatMap((stage) => stage.members.map(({ peer }) => peer)));
  const peer = {
    first: () => stages[0]?.members[0]?.peer,
    middle: () => stages[stages.length >> 1]?.members[0]?.peer,
    last: () => stages.at(-1)?.members[0]?.peer,
    stateOnly: () => shards.map((shard) => shard.peer).find((keeper) => !members.has(keeper)),
    replica: () => shards.flatMap(({ replicas }) => replicas)[0],
  }[whom]();
  return peer === undefined ? null : tabOf(peer);
}

function harm(swarm: Simulation, { harm: what, whom }: Mischief, random: Random): void {
  const tab = victim(swarm, whom);
  const one = (durations: readonly number[]): number => at(durations, Math.floor(random() * durations.length));
  switch (what) {
    case 'kill':
    case 'vanish':
      if (tab) swarm.kill(tab, what === 'vanish');
      return;
    case 'hang':
      tab?.hang();
      return;
    case 'freeze':
      tab?.machine.freeze(one(FROZEN_MS));
      return;
    case 'loseDevice':
      tab?.loseDevice();
      return;
    case 'cutOff':
      tab?.machine.cut(one(CUT_MS));
      return;
    case 'slow':
      if (tab) tab.machine.slowness *= SLOW_FACTOR;
      return;
    case 'loseLinks':
      for (const link of swarm.links.open()) if (tab?.owns(link)) link.cutOff();
      return;
    case 'loseSocket':
      tab?.loseSocket(one(SOCKET_LOST_MS), random() < 0.5);
      return;
    case 'killServer':
      swarm.server.kill();
      return;
    case 'fillDisk':
      swarm.server.disk.isFull = true;
      swarm.agenda.after(FULL_MS, () => {
        swarm.server.disk.isFull = false;
      });
      return;
    case 'jumpClock':
      if (tab && random() < 0.5) tab.machine.aheadMs += JUMP_MS;
      else swarm.server.machine.aheadMs += JUMP_MS;
      return;
    case 'leave':
      tab?.leave();
      swarm.openLater();
      return;
    case 'join':
      swarm.open();
  }
}
