/** What holds a step up, and the ways between its stages, in words. Pure. */
import type { LinkReport } from '../../../swarm/messages/profile.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import { longestWait, type PeerUse, type StepUse } from '../../../swarm/timeline/waits.ts';
import { byteRateText, percentText } from '../page/format.ts';

export type Link = NonNullable<Snapshot['links']>[number];

/** What holds a step up, in one sentence: the server's word for the plan in force; of another step who worked longest. */
export function bottleneckText(
  { seconds, peers }: StepUse,
  plan: Pick<PlanInForce, 'epoch' | 'stages'>,
  limit: Snapshot['limit'],
): string {
  const busiest = peers.toSorted((a, b) => b.busySeconds - a.busySeconds)[0];
  if (busiest === undefined || seconds <= 0) return 'No step of this plan has been measured yet.';
  const [name, share] = [busiest.peer, percentText(busiest.busySeconds / seconds)];
  if (peers.length === 1) return `${name} did the whole step alone and was at work ${share} of the time.`;
  if (limit?.epoch === plan.epoch) return limitText(limit, plan);
  return `${name} worked longest: ${share} of the step.`;
}

/** Less is within what predictions are off. */
const LEAST_GAIN = 0.02;

export function limitText({ kind, peers, gain }: NonNullable<Snapshot['limit']>, plan: Pick<PlanInForce, 'stages'>) {
  if (gain < LEAST_GAIN) return 'Nothing alone holds the step up.';
  const [one = '', other = ''] = peers;
  const stage = plan.stages.findIndex(({ members }) => members.some(({ peer }) => peer === peers[0])) + 1;
  const [what, how] = {
    compute: [`${one} in stage ${stage}`, 'with twice its speed'],
    line: [`The connection between ${one} and ${other}`, 'with twice the rate and half the delay'],
    parts: ['The few micro-batches in flight', 'with twice as many of half the size'],
    exchange: ['The exchange of gradients and weights', 'if it took half as long'],
    copies: ['Making copies of the state', 'without them'],
  }[kind];
  return `${what} hold${kind === 'parts' ? '' : 's'} the step up: ${how} it would take ${percentText(gain)} less.`;
}

const waitText = (seconds: number): string =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

/** Less of a step than this is no wait to speak of. */
const NAMED_WAIT = 0.05;

/** Of a donor on the map: how long it waits, and for whom; empty where that is little of a step. */
export function ownWaitText(use: PeerUse | undefined, stepSeconds: number): string {
  const wait = use ? longestNamedWait(use) : null;
  if (wait === null || wait.seconds < NAMED_WAIT * stepSeconds) return '';
  return `waits ${waitText(wait.seconds)} for ${wait.whom}`;
}

/** Whom a peer waits for longest, and how long; null where nobody can be named. */
export function longestNamedWait({ waits }: PeerUse): { readonly whom: string; readonly seconds: number } | null {
  const longest = longestWait([...waits].filter(([whom]) => whom !== null));
  return longest?.peer ? { whom: longest.peer, seconds: longest.seconds } : null;
}

type LinkClass = 'unknown' | 'slow' | 'fair' | 'fast';
const FAIR = 1e6;
const FAST = 1e7;

/** How a link's rate is drawn: each class has a width and a word of its own. */
export const linkClass = (rate: LinkReport['bytesPerSecond']): LinkClass =>
  rate === null ? 'unknown' : rate < FAIR ? 'slow' : rate < FAST ? 'fair' : 'fast';

export interface StageLink {
  readonly from: string;
  readonly to: string;
  /** Places in their stages. */
  readonly fromPlace: number;
  readonly toPlace: number;
  readonly route: Link['route'];
  readonly bytesPerSecond: number | null;
}

/** By their two ends. */
export type LinksByEnds = ReadonlyMap<string, Link>;
export const linksByEnds = (links: readonly Link[]): LinksByEnds =>
  new Map(links.map((link) => [`${link.from} ${link.peer}`, link]));

/** Both directions of a way as one: the slower rate, relayed where either is; null where neither was told. */
function slowerOf(both: readonly LinkReport[]): Pick<LinkReport, 'route' | 'bytesPerSecond'> | null {
  if (both.length === 0) return null;
  const rates = both.flatMap(({ bytesPerSecond }) => bytesPerSecond ?? []);
  return {
    route: both.some(({ route }) => route === 'relayed') ? 'relayed' : 'direct',
    bytesPerSecond: rates.length === 0 ? null : Math.min(...rates),
  };
}

/** The ways between neighbouring stages. In order of place. */
export function linksBehind(plan: Pick<PlanInForce, 'stages'>, stage: number, links: LinksByEnds): StageLink[] {
  const [before, after] = [plan.stages[stage], plan.stages[stage + 1]];
  if (!before || !after) return [];
  return before.members.flatMap((a, fromPlace) =>
    after.members.flatMap((b, toPlace): StageLink[] => {
      const both = [links.get(`${a.peer} ${b.peer}`), links.get(`${b.peer} ${a.peer}`)].filter(
        (each) => each !== undefined,
      );
      const link = slowerOf(both);
      if (link === null || a.peer === b.peer || !a.microBatches.some((id) => b.microBatches.includes(id))) return [];
      return [{ ...{ from: a.peer, to: b.peer, fromPlace, toPlace }, ...link }];
    }),
  );
}

/** Of more donors than these, how many there are. */
const MOST_KEEPERS = 6;

export function copiesText(copies: readonly string[]): string {
  if (copies.length === 0) return 'No copies are kept.';
  const names = copies.length > MOST_KEEPERS ? `${copies.length} donors` : copies.join(', ');
  return `Copies kept by ${names}.`;
}

/** Many ways in one sentence that names the slowest. */
export function waysText(links: readonly StageLink[]): string {
  const measured = links.filter(({ bytesPerSecond }) => bytesPerSecond !== null);
  const [slowest] = measured.toSorted((a, b) => (a.bytesPerSecond ?? 0) - (b.bytesPerSecond ?? 0));
  const relayed = links.filter(({ route }) => route === 'relayed').length;
  const counted = `${links.length} connections, ${relayed === 0 ? 'all direct' : `${relayed} relayed`}`;
  if (slowest === undefined) return counted;
  const { from, to, bytesPerSecond, route } = slowest;
  return `${counted}; the slowest ${from} ↔ ${to}: ${byteRateText(bytesPerSecond)} ${route}`;
}
