/**
 * How much of the model each donor owns at meetings, and what a meeting takes with owners and without them. Each range has
 * an owner and its copy: every primary sends its packets to both, the owner publishes what comes of them to whoever keeps
 * that range. So owning costs uplink and being a copy does not; both cost downlink and memory. Shares are those of the
 * least time T in which all of the model finds an owner and a copy: of each donor
 *
 *   owned          ≤ (T · upload − what its packets are) / what is published in all
 *   owned + copied ≤ (T · download − what is published to it) / (all packets / 2), its room, and 1: the two differ
 */
import { at, type PeerId, type Range, total, totalOf } from '../base.ts';
import { packedBytes } from '../wire.ts';
import type { MeetingSettings } from './outer.ts';
import { packetBytes } from './packet.ts';

/** Owner and its copy. */
export const OWNERS = 2;
/** Bytes of an element at each of them: shared value, velocity and what is published. */
export const OWNER_BYTES = 12;
/** Of S and V, which a checkpoint has and only they: who saves is sent both. */
export const SENT_KINDS = 2;
/** Of the model: who would own less owns nothing. */
const LEAST_SHARE = 1e-4;
/** With owners a meeting is to take less than this part of the time that it takes without. */
const CLEARLY_SOONER = 2 / 3;
const [LONGEST_SECONDS, HALVINGS] = [1e9, 60];

/** Bytes of so many elements as an island says them, and as they are published. */
export const saidBytes = ({ exchange }: Pick<MeetingSettings, 'exchange'>, elements: number): number =>
  packetBytes(exchange, [[0, Math.ceil(elements)] satisfies Range]);
export const publishedBytes = ({ publish }: Pick<MeetingSettings, 'publish'>, elements: number): number =>
  packedBytes(publish, Math.ceil(elements));

/** What a donor's line carries at a meeting, and what of that its own part of an island takes. */
export interface OwnerLine {
  /** Bytes a second; Infinity: unlimited. */
  readonly upload: number;
  readonly download: number;
  /** Bytes of its packets to owners and copies, and of what is published to it. */
  readonly sends: number;
  readonly gets: number;
  /** Parts of the model that it has room for as an owner or a copy; absent: all. */
  readonly room?: number;
}

/** Of each line, in their order: parts of the model. Each of the two sums to 1; of one line alone nothing is copied. */
interface OwnerShares {
  readonly seconds: number;
  readonly owned: readonly number[];
  readonly copied: readonly number[];
}

/** A donor at a meeting of groups. */
export interface MeetingDonor {
  readonly peer: PeerId;
  readonly upload: number;
  readonly download: number;
  /** Elements whose primary it is, and that it keeps; absent: as many as the others of its group, of the model. */
  readonly primary?: number;
  readonly kept?: number;
}

export function ownerLine(
  settings: MeetingSettings,
  { upload, download }: Pick<MeetingDonor, 'upload' | 'download'>,
  primary: number,
  kept: number,
): OwnerLine {
  const [sends, gets] = [OWNERS * saidBytes(settings, primary), publishedBytes(settings, kept)];
  return { upload, download, sends, gets };
}

/** Null where they have no room for what owners keep, or no line carries anything. */
export function sharesOf(lines: readonly OwnerLine[]): OwnerShares | null {
  const [owning, copying] = [lines.map(() => true), lines.map(() => true)];
  let found = leastTime(lines, owning, copying);
  for (;;) {
    if (found === null) return null;
    const haveGone = [withoutLeast(found.owned, owning), withoutLeast(found.copied, copying)];
    if (!haveGone.includes(true)) return found;
    const next = leastTime(lines, owning, copying);
    if (next === null) return found;
    found = next;
  }
}

/** Who has less than the least is in the list no more; the better half stays. True: somebody went. */
function withoutLeast(shares: readonly number[], isIn: boolean[]): boolean {
  const left = [...isIn.keys()].filter((i) => isIn[i]);
  const isLess = (share: number): boolean => share > 0 && share < LEAST_SHARE;
  const few = left.filter((i) => isLess(at(shares, i))).sort((a, b) => at(shares, a) - at(shares, b) || b - a);
  const out = few.slice(0, left.length >> 1);
  for (const i of out) isIn[i] = false;
  return out.length > 0;
}

function leastTime(
  lines: readonly OwnerLine[],
  owning: readonly boolean[],
  copying: readonly boolean[],
): OwnerShares | null {
  const said = totalOf(lines, ({ sends }) => sends) / OWNERS;
  const published = totalOf(lines, ({ gets }) => gets);
  const copies = Math.min(OWNERS, lines.length) - 1;
  const within = (seconds: number): OwnerShares | null => {
    const all = lines.map(({ upload, download, sends, gets, room = 1 + copies }, i) => {
      const down = (download * seconds - gets) / said;
      const most = Math.max(0, Math.min(1, down, room));
      return [owning[i] ? Math.max(0, Math.min(most, (upload * seconds - sends) / published)) : 0, most] as const;
    });
    const owned = wholeOf(all.map(([own]) => own));
    if (owned === null) return null;
    const copied =
      copies === 0
        ? all.map(() => 0)
        : wholeOf(all.map(([, most], i) => (copying[i] ? Math.max(0, most - at(owned, i)) : 0)));
    return copied && { seconds, owned, copied };
  };
  let low = Math.max(...lines.map(({ upload, sends }) => sends / upload));
  let high = Math.max(low, 1);
  while (within(high) === null && high < LONGEST_SECONDS) high *= 2;
  let found = within(high);
  for (let halvings = 0; found !== null && halvings < HALVINGS; halvings++) {
    const middle = (low + high) / 2;
    const sooner = within(middle);
    if (sooner === null) low = middle;
    else [high, found] = [middle, sooner];
  }
  return found;
}

/** Shares in this proportion; null where they are not enough for all of it. */
function wholeOf(most: readonly number[]): number[] | null {
  const sum = total(most);
  return sum >= 1 - 1e-9 ? most.map((share) => share / sum) : null;
}

/** Donors of a group that keep the model of so many elements. */
interface MeetingGroup {
  readonly donors: readonly MeetingDonor[];
  /** Islands that it does by turns. */
  readonly turns: number;
}

/**
 * Seconds that each donor takes without owners (IS42): a primary sends its packets, one for each of the `turns` islands of
 * its group, to whoever keeps that range in any other group.
 */
export function toEveryGroup(elements: number, settings: MeetingSettings, groups: readonly MeetingGroup[]): number[] {
  const islands = totalOf(groups, ({ turns }) => turns);
  return groups.flatMap(({ donors, turns }) =>
    donors.map(({ upload, download, ...donor }) => {
      const { primary, kept } = partOf(donor, elements / donors.length);
      const sends = turns * (groups.length - 1) * saidBytes(settings, primary);
      const gets = (islands - turns) * saidBytes(settings, kept);
      return Math.max(sends / upload, gets / download);
    }),
  );
}

const partOf = ({ primary, kept }: Pick<MeetingDonor, 'primary' | 'kept'>, equal: number) => {
  const own = primary ?? equal;
  return { primary: own, kept: kept ?? own };
};

/** Seconds of a meeting of these groups, an island each, until its last word is sent; of a model of so many elements. */
export interface MeetingTimes {
  /** With owners; null: nobody can be one. */
  readonly owned: number | null;
  readonly toEveryGroup: number;
}

export function meetingTimes(
  elements: number,
  settings: MeetingSettings,
  groups: readonly (readonly MeetingDonor[])[],
): MeetingTimes {
  const lines = groups.flatMap((donors) =>
    donors.map((donor) => {
      const { primary, kept } = partOf(donor, elements / donors.length);
      return ownerLine(settings, donor, primary, kept);
    }),
  );
  const shares = sharesOf(lines);
  const received = lines.map(({ gets, download }) => gets / download);
  const each = groups.map((donors) => ({ donors, turns: 1 }));
  return {
    owned: shares && Math.max(shares.seconds, ...received),
    toEveryGroup: Math.max(...toEveryGroup(elements, settings, each)),
  };
}

/** They meet clearly sooner with owners. */
export const wantsOwners = ({ owned, toEveryGroup: all }: MeetingTimes): boolean =>
  owned !== null && owned < CLEARLY_SOONER * all;
/** Clearly sooner without them. */
export const wantsNoOwners = ({ owned, toEveryGroup: all }: MeetingTimes): boolean =>
  owned === null || all < CLEARLY_SOONER * owned;
