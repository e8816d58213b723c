/**
 * What a meeting of islands takes, in the two ways that a run has. With owners (islands/ownerShares.ts) each primary sends its
 * packet to the owner of that range and to the owner's copy; the owner adds what all islands sent, takes the outer step and
 * publishes the outcome to everyone who computes with that range. To every group: each primary sends its packet to whoever
 * keeps that range elsewhere, and every keeper works out all that it keeps.
 */
import { at } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import {
  meetingTimes,
  OWNER_BYTES,
  OWNERS,
  ownerLine,
  publishedBytes,
  SENT_KINDS,
  sharesOf,
  toEveryGroup,
  wantsOwners,
} from '../islands/ownerShares.ts';
import { FLOAT_BYTES, savedKinds } from '../plan/stateKinds.ts';
import type { ClusterCosts } from './clusterCosts.ts';

/** From the round's end to the next one's beginning messages go to and fro so often: packets, digests, roster, outcome. */
const MESSAGES = 6;
/** Of CPU work an element: a packet made, the outer step, what is published. Measured, 10 M elements in 0.3 s. */
const ELEMENT_SECONDS = 3e-8;

/** Which is all that matters of it here. */
const SPARSE = { top: 1, chunk: 1, feedback: 0 };

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
  /** Until all ranges are sent by their owners, or all packets to every group. */
  readonly sendingSeconds: number;
  /** Latencies and CPU work beside sending and receiving. */
  readonly besideSeconds: number;
  /** The part of the model that each donor owns; empty where nobody does. */
  readonly shares: readonly number[];
}

/** A model, and what each donor's line carries. */
interface Lines {
  readonly model: { readonly blocks: readonly { readonly elements: number }[] };
  readonly peers: readonly { readonly upload: number; readonly download: number }[];
}

const elementsOf = ({ model }: Pick<Lines, 'model'>): number =>
  model.blocks.reduce((sum, { elements }) => sum + elements, 0);

/** Bytes that owners need beside what these donors have. */
export const missingForOwners = (costs: ClusterCosts, parts: readonly Part[]): number =>
  Math.min(OWNERS, parts.length) * OWNER_BYTES * elementsOf(costs) - parts.reduce((sum, { free }) => sum + free, 0);

/** Null where nobody has room for what owners keep, or no line carries anything. */
export function meetingOf(costs: ClusterCosts, settings: MeetingSettings, parts: readonly Part[]): Meeting | null {
  const model = elementsOf(costs);
  const lines = parts.map(({ place, primary, held, free }) => ({
    ...ownerLine(settings, at(costs.peers, place), primary, held),
    room: free / (OWNER_BYTES * model),
  }));
  const found = sharesOf(lines);
  if (found === null) return null;
  const { seconds, owned, copied } = found;
  const worked = parts.map(({ held }, i) => held + (at(owned, i) + at(copied, i)) * model);
  return {
    sendingSeconds: Math.max(seconds, overLinks(costs, settings, parts, owned)),
    besideSeconds: besideSeconds(costs, parts, worked),
    shares: owned,
  };
}

/** A group's donors with their parts, and how many islands they do by turns. */
interface Parted {
  readonly parts: readonly Part[];
  readonly turns: number;
}

const donorsOf = (costs: ClusterCosts, { parts, turns }: Parted) => ({
  turns,
  donors: parts.map(({ place, primary, held }) => {
    const { id, upload, download } = at(costs.peers, place);
    return { peer: id, upload, download, primary: primary / turns, kept: held };
  }),
});

/** Seconds of each donor that sends its packets to every group. */
export const secondsToAll = (costs: ClusterCosts, settings: MeetingSettings, groups: readonly Parted[]): number[] =>
  toEveryGroup(
    elementsOf(costs),
    settings,
    groups.map((group) => donorsOf(costs, group)),
  );

export const meetSoonerOwned = (costs: ClusterCosts, settings: MeetingSettings, groups: readonly Parted[]): boolean =>
  wantsOwners(
    meetingTimes(
      elementsOf(costs),
      settings,
      groups.map((group) => donorsOf(costs, group).donors),
    ),
  );

/** Without owners. */
export function meetingOfAll(costs: ClusterCosts, settings: MeetingSettings, groups: readonly Parted[]): Meeting {
  const parts = groups.flatMap((group) => group.parts);
  // The outer step of all that it keeps, beside its packets.
  const worked = parts.map(({ primary, held }) => primary + held);
  return {
    sendingSeconds: Math.max(...secondsToAll(costs, settings, groups)),
    besideSeconds: besideSeconds(costs, parts, worked),
    shares: [],
  };
}

/** A checkpoint of what islands share. */
export interface IslandSave {
  /** Of the groups the one that has it uploaded soonest, which saves it (IS118). */
  readonly group: number;
  readonly uploadSeconds: number;
  readonly bytes: number;
  /** How much longer the meeting takes, with owners, who send that group what is saved. */
  readonly meetingSeconds: number;
}

/** `shares`: of owners, in the order of all donors of these groups, then of others; empty where there are none. */
export function islandSave(
  costs: Lines,
  { publish }: Pick<MeetingSettings, 'publish'>,
  groups: readonly (readonly Part[])[],
  owning: readonly Part[],
  shares: readonly number[],
): IslandSave {
  const model = elementsOf(costs);
  const saved = FLOAT_BYTES * savedKinds({ count: 'auto', exchange: SPARSE, publish }).length;
  const sent = shares.length > 0 ? FLOAT_BYTES * SENT_KINDS : 0;
  const of = ({ place }: Part) => at(costs.peers, place);
  const slowest = (parts: readonly Part[], seconds: (part: Part, i: number) => number): number =>
    Math.max(0, ...parts.map(seconds));
  const uploads = groups.map((parts) => slowest(parts, (part) => (saved * part.primary) / of(part).upload));
  const group = uploads.indexOf(Math.min(...uploads));
  const received = slowest(at(groups, group), (part) => (sent * part.held) / of(part).download);
  const sending = slowest(owning, (part, i) => (sent * (shares[i] ?? 0) * model) / of(part).upload);
  return {
    ...{ group, uploadSeconds: at(uploads, group), bytes: saved * model },
    meetingSeconds: Math.max(received, sending),
  };
}

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

/** `worked`: elements of each part's CPU work. */
const besideSeconds = (costs: ClusterCosts, parts: readonly Part[], worked: readonly number[]): number =>
  MESSAGES * farthest(costs, parts) + ELEMENT_SECONDS * Math.max(...worked);
