/**
 * Who has what all islands share, where not every keeper does (islands/owners.ts): for each range two donors have it, work out
 * what comes of a meeting there, and publish that. At a meeting of other donors than the last one it is shared out anew
 * among them, and moves in that meeting. Rules IS in SPEC.md.
 */
import type { DonorPace } from '../autoplan/groupsAnew.ts';
import { at, overlap, type PeerId, totalOf } from '../base.ts';
import type { PlanInForce } from '../coordinator/state.ts';
import {
  type MeetingDonor,
  type MeetingTimes,
  meetingTimes,
  type OwnerLine,
  ownerLine,
  wantsNoOwners,
  wantsOwners,
} from '../islands/ownerShares.ts';
import { type Owned, ownersOf } from '../islands/owners.ts';
import type { MeetingOwners, OwnedRange } from '../messages/meetingWords.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { keepersOf, peers as peersOf, type Shard } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';
import type { Islands } from '../run/runFile.ts';
import type { Apart, Deciding, Saving } from './deciding.ts';
import type { Group } from './group.ts';
import { NO_ISLAND, type Owners, type OwnersTold } from './owned.ts';
import { lessSent, type OwnersSend, ownersSend, repaired } from './ownerCosts.ts';
import { ownerRoom } from './ownerRoom.ts';
import { pacesNow } from './paces.ts';
import { freeIn } from './parts.ts';
import { islandOf } from './recordedRounds.ts';

/** With which groups begin that start from a checkpoint; null: every keeper has all of what it keeps. */
export function ownersFrom(groups: readonly Group[], run: Apart['run'], step: number): Owners | null {
  const times = mayHaveOwners(run) ? timesOf(byGroup(groups), run) : null;
  return times && wantsOwners(times) ? { checkpoint: step, ranges: [], among: [] } : null;
}

const mayHaveOwners = ({ train: { islands } }: Apart['run']): boolean =>
  islands?.count === 'auto' && islands.publish === 'int8' && islands.exchange !== 'f32';

/** What a meeting of groups with these lines takes; null: the run has no islands. */
const timesOf = (lines: readonly MeetingDonor[][], run: Apart['run']): MeetingTimes | null =>
  run.train.islands ? meetingTimes(elementsOf(run), run.train.islands, lines) : null;

const elementsOf = (run: Apart['run']): number => totalOf(acceptedModel(run).blocks, ({ elements }) => elements);

/** What all take to begin anew, beside what each has to load. */
const BEGINNING_SECONDS = 60;
/** Where no round was met yet. */
const FIRST_ROUNDS = 20;

function roundsLeft(groups: readonly Group[], { run, giving }: Apart): number {
  const { met } = at(groups, 0).coordinator;
  return giving?.before ? (run.steps - met) / giving.before : FIRST_ROUNDS;
}

/** It is worth beginning anew to meet the other way. Where they meet beside the steps it is looked at later. */
export function isTurnDue({ groups, apart }: Deciding): boolean {
  const { owners, run, meetings } = apart;
  if (!mayHaveOwners(run) || meetings.beside !== null || groups.length === 1) return false;
  const lines = byGroup(groups);
  const times = timesOf(lines, run);
  if (times === null || !(owners === null ? wantsOwners(times) : wantsNoOwners(times))) return false;
  const gained = roundsLeft(groups, apart) * Math.abs(times.toEveryGroup - (times.owned ?? Infinity));
  const downloads = lines.map((own) => totalOf(own, ({ download }) => download));
  return gained > BEGINNING_SECONDS + (FLOAT_BYTES * elementsOf(run)) / Math.min(...downloads);
}

export const turnText = ({ owners }: Apart): string =>
  owners === null
    ? 'from now on what islands share lies with owners, with whom they meet sooner'
    : 'from now on every keeper has what islands share: they meet sooner so';

export const UNSAVED = 'nobody is left who has all that was to be saved';

/** Who has all that is to be saved is there, or nobody waits for it. */
export const canSave = ({ groups }: Deciding, { by }: Pick<Saving, 'by'>): boolean =>
  by === undefined || by.includes(islandOf(at(groups, 0).coordinator));

/** Lines as they are known now; of who measured nothing, none. */
function linesOf(groups: readonly Group[], peers: readonly PeerId[]): (MeetingDonor & { memoryBytes: number })[] {
  const paces = new Map<string, DonorPace>(pacesNow(groups, peers).map((pace) => [pace.peer, pace]));
  return peers.flatMap((peer) => {
    const pace = paces.get(peer);
    return pace ? { peer, upload: pace.upload, download: pace.download, memoryBytes: pace.memoryBytes } : [];
  });
}

/** Of each group of whose donors any is known. */
function byGroup(groups: readonly Group[]): MeetingDonor[][] {
  const peersOf = ({ coordinator: { donors } }: Group): PeerId[] => donors.map(({ peer }) => peer);
  const lines = new Map(linesOf(groups, groups.flatMap(peersOf)).map((line) => [line.peer, line]));
  return groups
    .map((group) => peersOf(group).flatMap((peer) => lines.get(peer) ?? []))
    .filter(({ length }) => length > 0);
}

/**
 * Null: every keeper has all. lost: who had some of it is gone, and no checkpoint has what came of the last meeting. `saving`:
 * places of the groups that are sent what is saved.
 */
export function meetingOwners(
  { groups, apart }: Deciding,
  plans: readonly PlanInForce[],
  saving: readonly number[],
): OwnersTold | 'lost' | null {
  const { owners, run, meetings } = apart;
  const { islands } = run.train;
  if (owners === null || islands === undefined) return null;
  const among = amongIn(groups, plans);
  const isLeft = (peer: PeerId): boolean =>
    owners.among.some(
      ([one, island]) =>
        one === peer && among.some((now) => now[0] === one && (island === NO_ISLAND || now[1] === island)),
    );
  const had = owners.ranges.map((one) => ({ ...one, peers: one.peers.filter(isLeft) }));
  const { met, newestCheckpointStep } = at(groups, 0).coordinator;
  const isSaved = met === newestCheckpointStep && meetings.beside === null;
  const checkpoint = owners.checkpoint ?? (isSaved ? newestCheckpointStep : null);
  if (checkpoint === null && had.some(({ peers }) => peers.length === 0)) return 'lost';
  const lines = ownerLines(groups, plans, run, islands);
  const copies = totalOf(lines, ({ kept = 0 }) => kept) / elementsOf(run);
  const costOf = (ranges: OwnedRange[]): OwnersSend =>
    ownersSend(islands, { ranges, savedBy: [...saving] }, lines, copies);
  // At later meetings who has a range then publishes it.
  const overMeetings = (ranges: OwnedRange[]): OwnersSend => {
    const { publishing } = costOf(ranges.map((one) => ({ ...one, have: one.keep })));
    return { ...costOf(ranges), publishing };
  };
  const anew = (): OwnedRange[] => movedTo(sharedOut(run, islands, lines), owners, had);
  const ranges =
    owners.checkpoint !== null
      ? anew()
      : JSON.stringify(among) === JSON.stringify(owners.among)
        ? movedTo(had, owners, had)
        : lessSent([movedTo(repaired(had, lines), owners, had), anew()], overMeetings, roundsLeft(groups, apart));
  return {
    owners: {
      ranges,
      ...(checkpoint === null ? {} : { checkpoint }),
      generation: at(groups, 0).coordinator.generation,
      ...(saving.length === 0 ? {} : { savedBy: [...saving] }),
    },
    allowedMs: 1_000 * costOf(ranges).allowed,
  };
}

/** From who has it to who is to have it, in parts of which each has one of both. */
const movedTo = (wanted: Owners['ranges'], { checkpoint }: Owners, had: Owners['ranges']): OwnedRange[] =>
  wanted.flatMap(({ block, range, peers }): OwnedRange[] =>
    checkpoint === null
      ? had.flatMap((one) => {
          const part = one.block === block ? overlap(one.range, range) : null;
          return part ? { block, range: part, have: inOrder(one.peers, peers), keep: [...peers] } : [];
        })
      : [{ block, range, have: [], keep: [...peers] }],
  );

/** Who keeps it publishes it. */
const inOrder = (have: readonly PeerId[], keep: readonly PeerId[]): PeerId[] => [
  ...keep.filter((peer) => have.includes(peer)),
  ...have.filter((peer) => !keep.includes(peer)),
];

/** Who keeps some of the state, and who has no part in anything and is there: they are told of a meeting. */
function amongIn(groups: readonly Group[], plans: readonly PlanInForce[]): Owners['among'] {
  const states = groups.map(({ coordinator }) => coordinator);
  const idle = freeIn(states).toSorted();
  return [
    ...plans.flatMap(({ plan: { state, islands = [] } }) => {
      const keepers = new Set(state.flatMap(({ shards }) => shards.flatMap(keepersOf)));
      return [...keepers].toSorted().map((peer) => [peer, at(islands, 0)] as const);
    }),
    ...idle.map((peer) => [peer, NO_ISLAND] as const),
  ];
}

/** Lines of who is told of a meeting. Where nobody's is known all are alike. */
function ownerLines(
  groups: readonly Group[],
  plans: readonly PlanInForce[],
  run: Apart['run'],
  islands: Islands,
): Told[] {
  const told = amongIn(groups, plans).map(([peer]) => peer);
  const known = linesOf(groups, told);
  const all = known.length > 0 ? known : told.map((peer) => ({ peer, ...UNKNOWN }));
  const shards = plans.flatMap(({ plan }) => plan.state.flatMap((one) => one.shards));
  const elements = (isIts: (shard: Shard) => boolean): number =>
    totalOf(shards, (shard) => (isIts(shard) ? sizeOf(shard) : 0));
  const planOf = (peer: PeerId) => plans.find(({ plan }) => peersOf(plan).includes(peer))?.plan ?? null;
  return all.map(({ peer, upload, download, memoryBytes }) => {
    const primary = elements((shard) => shard.peer === peer);
    const kept = elements((shard) => keepersOf(shard).includes(peer));
    const roomFor = ownerRoom(run, peer, memoryBytes, planOf(peer));
    const room = roomFor / elementsOf(run);
    return { peer, primary, kept, room, roomFor, ...ownerLine(islands, { upload, download }, primary, kept) };
  });
}
/** `roomFor`: elements, `room` as a part of the model. */
type Told = MeetingDonor & OwnerLine & { readonly roomFor: number };
const UNKNOWN = { upload: 1, download: 1, memoryBytes: Infinity };

function sharedOut(run: Apart['run'], islands: Islands, lines: readonly Told[]): Owned[] {
  const model = acceptedModel(run);
  const ways: ((line: Told) => Told)[] = [
    (line) => line,
    // Where all together have too little room the run goes on all the same; where no line carries anything all are alike.
    (line) => ({ ...line, room: Infinity }),
    (line) => ({ ...line, room: Infinity, ...UNKNOWN }),
  ];
  for (const way of ways) {
    const found = ownersOf(model, islands, lines.map(way));
    if (found.length > 0) return found;
  }
  return [];
}

/** After the meeting. Neighbours that the same have are one range. */
export function ownersAfter(
  { ranges }: MeetingOwners,
  groups: readonly Group[],
  plans: readonly PlanInForce[],
): Owners {
  const found: Owners['ranges'][number][] = [];
  for (const { block, range, keep: peers } of ranges) {
    const last = found.at(-1);
    const isNext = last?.block === block && last.range[1] === range[0] && last.peers.join(' ') === peers.join(' ');
    if (isNext && last) found[found.length - 1] = { block, range: [last.range[0], range[1]], peers };
    else found.push({ block, range, peers });
  }
  return { checkpoint: null, ranges: found, among: amongIn(groups, plans) };
}
