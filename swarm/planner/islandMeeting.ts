/**
 * What a meeting of islands takes. Each primary sends its packet to the owner of that range and to the owner's copy. An
 * owner adds what all islands sent, takes the outer step and sends the outcome to everyone who computes with that range.
 * Ranges are owned in the proportion of the uplink that is left over, as far as memory and downlink allow: the least time
 * in which all of the model finds an owner is what sending takes.
 */
import { at, type Range } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { packetBytes } from '../islands/packet.ts';
import { packedBytes } from '../wire.ts';
import type { ClusterCosts } from './clusterCosts.ts';

/** Owner and its copy. */
export const OWNERS = 2;
/** From the round's end to the next one's beginning messages go to and fro so often: packets, digests, roster, outcome. */
const MESSAGES = 6;
/** Of CPU work an element: a packet made, the outer step, what is published. Measured, 10 M elements in 0.3 s. */
const ELEMENT_SECONDS = 3e-8;

/** A donor's part of an island. */
export interface Part {
  readonly place: number;
  /** Elements whose primary it is, and those that it computes with. */
  readonly primary: number;
  readonly held: number;
  /** Bytes of its memory that nothing else takes. */
  readonly free: number;
}

export interface Meeting {
  /** Until all ranges are sent by their owners. */
  readonly sendingSeconds: number;
  /** Latencies and CPU work beside sending and receiving. */
  readonly besideSeconds: number;
  /** The part of the model that each donor owns. */
  readonly shares: readonly number[];
}

/** Bytes of so many elements as an island says them, and as they are published. */
export const saidBytes = ({ exchange }: Pick<MeetingSettings, 'exchange'>, elements: number): number =>
  packetBytes(exchange, [[0, Math.ceil(elements)] satisfies Range]);
export const publishedBytes = ({ publish }: Pick<MeetingSettings, 'publish'>, elements: number): number =>
  packedBytes(publish, Math.ceil(elements));

/** Bytes of an element at its owners: velocity, and the shared value where it is not what is published. */
export const ownersBytes = ({ publish }: MeetingSettings): number => OWNERS * (publish === 'int8' ? 8 : 4);

const elementsOf = ({ model }: ClusterCosts): number => model.blocks.reduce((sum, { elements }) => sum + elements, 0);

/** Bytes that owners need beside what these donors have. */
export const missingForOwners = (costs: ClusterCosts, settings: MeetingSettings, parts: readonly Part[]): number =>
  ownersBytes(settings) * elementsOf(costs) - parts.reduce((sum, { free }) => sum + free, 0);

/** Of islands with these donors; null where nobody has room for what owners keep, or no line carries anything. */
export function meetingOf(
  costs: ClusterCosts,
  settings: MeetingSettings,
  parts: readonly Part[],
  islands: number,
): Meeting | null {
  const model = elementsOf(costs);
  const said = saidBytes(settings, model);
  const published = parts.reduce((sum, { held }) => sum + publishedBytes(settings, held), 0);
  const lines = parts.map(({ place, primary, held, free }) => {
    const { upload, download } = at(costs.peers, place);
    const room = free / (ownersBytes(settings) * model);
    return {
      upload,
      download,
      room,
      sends: OWNERS * saidBytes(settings, primary),
      gets: publishedBytes(settings, held),
    };
  });
  const sharesIn = (seconds: number): number[] =>
    lines.map(({ upload, download, room, sends, gets }) => {
      const up = (upload * seconds - sends) / published;
      const down = (download * seconds - gets) / (OWNERS * islands * said);
      return Math.max(0, Math.min(1, up, down, room));
    });
  const isEnough = (seconds: number): boolean => sharesIn(seconds).reduce((sum, share) => sum + share, 0) >= 1;
  let [low, high] = [Math.max(...lines.map(({ upload, sends }) => sends / upload)), 1];
  while (!isEnough(high) && high < LONGEST_SECONDS) high *= 2;
  if (!isEnough(high)) return null;
  high = Math.max(low, high);
  for (let halvings = 0; halvings < HALVINGS; halvings++) {
    const middle = (low + high) / 2;
    if (isEnough(middle)) high = middle;
    else low = middle;
  }
  const shares = sharesIn(high);
  const whole = shares.reduce((sum, share) => sum + share, 0);
  const owned = shares.map((share) => share / whole);
  return {
    sendingSeconds: Math.max(high, overLinks(costs, settings, parts, owned)),
    besideSeconds: MESSAGES * farthest(costs, parts) + workSeconds(parts, owned, model),
    shares: owned,
  };
}

/**
 * Seconds that each part takes as runs meet (IS42): a primary sends its packets, one for each of the `turns` islands of its
 * group, to whoever keeps that range in any other group.
 */
export function toEveryGroup(
  costs: ClusterCosts,
  settings: MeetingSettings,
  groups: readonly { readonly parts: readonly Part[]; readonly turns: number }[],
): number[] {
  const islands = groups.reduce((sum, { turns }) => sum + turns, 0);
  return groups.flatMap(({ parts, turns }) =>
    parts.map(({ place, primary, held }) => {
      const { upload, download } = at(costs.peers, place);
      const sends = turns * (groups.length - 1) * saidBytes(settings, primary);
      const gets = (islands - turns) * saidBytes(settings, held);
      return Math.max(sends / upload, gets / download);
    }),
  );
}

const [LONGEST_SECONDS, HALVINGS] = [1e9, 60];

/** What goes from each owner to each donor over their link alone. */
function overLinks(costs: ClusterCosts, settings: MeetingSettings, parts: readonly Part[], owned: readonly number[]) {
  let most = 0;
  for (const [owner, { place: from }] of parts.entries()) {
    for (const { place: to, held } of parts) {
      const { bytesPerSecond } = costs.linkAt(from, to);
      if (bytesPerSecond === null || from === to) continue;
      most = Math.max(most, (at(owned, owner) * publishedBytes(settings, held)) / bytesPerSecond);
    }
  }
  return most;
}

function farthest(costs: ClusterCosts, parts: readonly Part[]): number {
  let most = 0;
  for (const { place: from } of parts)
    for (const { place: to } of parts) if (from !== to) most = Math.max(most, costs.linkAt(from, to).latencySeconds);
  return most;
}

const workSeconds = (parts: readonly Part[], owned: readonly number[], model: number): number =>
  parts.reduce((most, { held }, i) => Math.max(most, ELEMENT_SECONDS * (held + OWNERS * at(owned, i) * model)), 0);
