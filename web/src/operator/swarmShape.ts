/** What holds a step up, and the ways between its stages, in words. Pure. */
import type { LinkReport } from '../../../swarm/messages/profile.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import { longestWait, type PeerUse, type StepUse } from '../../../swarm/timeline/waits.ts';
import { byteRateText, percentText, shortId } from '../page/format.ts';

export type Link = NonNullable<Snapshot['links']>[number];

/** Who is at work for this part of a step leaves nothing to be gained by faster messages. */
const HOLDS_UP = 0.75;

/** Where the time goes, in one sentence. */
export function bottleneckText(
  { seconds, peers }: StepUse,
  plan: Pick<PlanInForce, 'stages'>,
  links: readonly Link[],
): string {
  const busiest = peers.toSorted((a, b) => b.busySeconds - a.busySeconds)[0];
  if (busiest === undefined || seconds <= 0) return 'No step of this plan has been measured yet.';
  const name = shortId(busiest.peer);
  const share = busiest.busySeconds / seconds;
  if (peers.length === 1) return `${name} did the whole step alone and was at work ${percentText(share)} of the time.`;
  const stage = plan.stages.findIndex(({ members }) => members.some(({ peer }) => peer === busiest.peer)) + 1;
  const longest = peers
    .flatMap((own) => {
      const wait = longestNamedWait(own);
      return wait ? [{ peer: own.peer, ...wait }] : [];
    })
    .toSorted((a, b) => b.seconds - a.seconds)[0];
  if (share >= HOLDS_UP) {
    const waiting =
      longest?.whom === busiest.peer
        ? `; ${shortId(longest.peer)} waits for it ${waitText(longest.seconds)} a step`
        : '';
    return `${name} in stage ${stage} is the bottleneck: at work ${percentText(share)} of the step${waiting}.`;
  }
  if (longest === undefined)
    return `Nobody works for more than ${percentText(share)} of the step: the rest goes into exchanging gradients and weights.`;
  const ends = [longest.whom, longest.peer];
  const link = slowerOf(links.filter(({ from, peer }) => ends.includes(from) && ends.includes(peer)));
  const rate = link?.bytesPerSecond ? ` (${byteRateText(link.bytesPerSecond)}, ${link.route})` : '';
  return `The connection from ${shortId(longest.whom)} to ${shortId(longest.peer)}${rate} is the bottleneck: it costs ${waitText(longest.seconds)} of waiting a step, while nobody works for more than ${percentText(share)} of it.`;
}

const waitText = (seconds: number): string =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

/** Less of a step than this is no wait to speak of. */
const NAMED_WAIT = 0.05;

/** Of a donor on the map: how long it waits, and for whom; empty where that is little of a step. */
export function ownWaitText(use: PeerUse | undefined, stepSeconds: number): string {
  const wait = use ? longestNamedWait(use) : null;
  if (wait === null || wait.seconds < NAMED_WAIT * stepSeconds) return '';
  return `waits ${waitText(wait.seconds)} for ${shortId(wait.whom)}`;
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
  const names = copies.length > MOST_KEEPERS ? `${copies.length} donors` : copies.map(shortId).join(', ');
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
  return `${counted}; the slowest ${shortId(from)} ↔ ${shortId(to)}: ${byteRateText(bytesPerSecond)} ${route}`;
}
