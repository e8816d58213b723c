/**
 * What a coordinator remembers of audits: which are under way, what came of the others, and what each member did that none
 * has confirmed. Pure questions and answers; what is done about them is in auditing.ts. Rules AU in SPEC.md.
 */
import { type PeerId, type Random, totalOf } from '../base.ts';
import { isRecorded } from '../islands/rounds.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import { type AuditedWork, isAuditable, isWithinReach, itemsOf } from '../ways/evidence.ts';
import type { CoordinatorConfig } from './events.ts';

/** All of a member's first items are drawn. */
const FIRST_ITEMS = 10;
/** After a conviction this holds for so many steps of all items of those who came since. */
const WARY_STEPS = 100;
/** A lie that is in each item goes unseen for longer with this probability. */
const UNSEEN = 0.001;
/** Of what a member did so many times as many items are remembered as may be undone: an audit takes a while. */
const REMEMBERED = 4;

/** Under way. */
export interface PendingAudit extends AuditedWork {
  readonly audit: number;
  readonly step: number;
  readonly sizeBytes: number;
  /** Who owes evidence. */
  readonly waitingFor: readonly PeerId[];
  readonly deadline: number;
}

/** What a member did at a stage in a step, which no audit has confirmed. */
interface Unconfirmed {
  readonly step: number;
  readonly stage: number;
  readonly items: number;
}

interface AuditRecord {
  readonly peer: PeerId;
  /** The step of its first item. */
  readonly since: number;
  readonly items: number;
  /** The newest ones, oldest first. */
  readonly unconfirmed: readonly Unconfirmed[];
}

/**
 * What came of those that were drawn. undone: the step was before it was over. void: what it needs did not come.
 * notReached: past the budget, or the queue.
 */
interface AuditCounts {
  readonly agreed: number;
  readonly convicted: number;
  readonly undone: number;
  readonly void: number;
  readonly notReached: number;
}

export interface Audits {
  /** So many so far. */
  readonly drawn: number;
  readonly pending: readonly PendingAudit[];
  readonly counts: AuditCounts;
  /** Bytes that steps have moved, and of the evidence that was asked for. */
  readonly movedBytes: number;
  readonly evidenceBytes: number;
  readonly records: readonly AuditRecord[];
  /** The first step that the newest conviction undid; null: there was none. */
  readonly waryFrom: number | null;
}

export const NO_AUDITS: Audits = {
  ...{ drawn: 0, pending: [], movedBytes: 0, evidenceBytes: 0, records: [], waryFrom: null },
  counts: { agreed: 0, convicted: 0, undone: 0, void: 0, notReached: 0 },
};

/** Some of what the members of this plan do is done again: not in halves, whose honest differences are not known. */
export const isAudited = (
  config: Pick<CoordinatorConfig, 'audit' | 'compute' | 'train' | 'batch' | 'model'>,
  plan: Plan,
): boolean =>
  config.audit !== undefined &&
  config.audit.share > 0 &&
  config.compute !== 'f16' &&
  !isRecorded(config.train) &&
  isAuditable(plan) &&
  plan.stages.some(({ members }, stage) =>
    members.some(({ peer }) => isWithinReach(acceptedModel(config), plan, config.batch.sequence, { stage, peer })),
  );

/** In a step: in an order of chance, so that a budget passes over everyone alike. */
export function drawn(
  { records, waryFrom }: Audits,
  plan: Plan,
  share: number,
  step: number,
  random: Random,
): readonly AuditedWork[] {
  const work = plan.stages.flatMap(({ members }, stage) => members.map(({ peer }) => ({ stage, peer })));
  return work
    .map((one) => ({ one, chance: random(), place: random() }))
    .filter(({ one, chance }) => {
      const record = records.find(({ peer }) => peer === one.peer);
      const isNew = record === undefined || record.items < FIRST_ITEMS;
      const isWary = waryFrom !== null && step - waryFrom < WARY_STEPS && (record?.since ?? step) >= waryFrom;
      return chance < (isNew || isWary ? 1 : 1 - (1 - share) ** itemsOf(plan, one));
    })
    .toSorted((a, b) => a.place - b.place)
    .map(({ one }) => one);
}

/** So many items are undone with one that is wrong: of which at least one would have been drawn. */
const undoneItems = (share: number): number => (share >= 1 ? 1 : Math.ceil(Math.log(UNSEEN) / Math.log(1 - share)));

/** After a step: what its members did is not confirmed yet. */
export function withItems(audits: Audits, plan: Plan, step: number, share: number): Audits {
  const records = new Map(audits.records.map((record) => [record.peer, record]));
  const most = REMEMBERED * undoneItems(share);
  for (const [stage, { members }] of plan.stages.entries())
    for (const { peer } of members) {
      const items = itemsOf(plan, { stage, peer });
      const known = records.get(peer) ?? { peer, since: step, items: 0, unconfirmed: [] };
      const unconfirmed = newest([...known.unconfirmed, { step, stage, items }], most);
      records.set(peer, { ...known, items: known.items + items, unconfirmed });
    }
  return { ...audits, records: [...records.values()] };
}

function newest(all: readonly Unconfirmed[], most: number): readonly Unconfirmed[] {
  let sum = 0;
  const enough = all.findLastIndex(({ items }) => {
    sum += items;
    return sum >= most;
  });
  return all.slice(Math.max(0, enough));
}

export const withConfirmed = (audits: Audits, { peer, stage, step }: PendingAudit): Audits => ({
  ...audits,
  records: audits.records.map((record) =>
    record.peer === peer
      ? { ...record, unconfirmed: record.unconfirmed.filter((one) => one.step !== step || one.stage !== stage) }
      : record,
  ),
});

/** The first step that is to be done again where this audit finds what is wrong. */
export function firstUndone(
  { records }: Pick<Audits, 'records'>,
  { peer, step }: Pick<PendingAudit, 'peer' | 'step'>,
  share: number,
): number {
  const record = records.find((one) => one.peer === peer);
  const before = record?.unconfirmed.filter((one) => one.step <= step) ?? [];
  return Math.min(step, ...newest(before, undoneItems(share)).map((one) => one.step));
}

/** The first step that an audit may yet undo: one that is under way, or one that would find something in the newest step. */
export function undoableFrom(audits: Audits, share: number): number {
  const { pending, records } = audits;
  const now = records.map(({ peer }) => firstUndone(audits, { peer, step: Infinity }, share));
  return Math.min(...now, ...pending.map((one) => firstUndone(audits, one, share)));
}

export const counted = (audits: Audits, what: keyof AuditCounts, by = 1): Audits => ({
  ...audits,
  counts: { ...audits.counts, [what]: audits.counts[what] + by },
});

export function auditsSentence({ counts }: Audits): string {
  const { agreed, convicted, undone, void: lost, notReached } = counts;
  const missed = [
    ...(undone > 0 ? [`${undone} were undone first`] : []),
    ...(lost > 0 ? [`${lost} came to nothing`] : []),
    ...(notReached > 0 ? [`${notReached} were not reached`] : []),
  ];
  const said = [`${agreed} of its donors’ parts of steps agreed`, ...(convicted > 0 ? [`${convicted} did not`] : [])];
  return `Done again by the server: ${[...said, ...missed].join(', ')}.`;
}

/** Those of steps that still stand, whose evidence may come; and records of who is here, or audited. */
export function stillGoing(audits: Audits, committedSteps: number, here: (peer: PeerId) => boolean): Audits {
  const standing = audits.pending.filter(({ step }) => step < committedSteps);
  const pending = standing.filter(({ waitingFor }) => waitingFor.every(here));
  const isKept = (peer: PeerId): boolean => here(peer) || pending.some((one) => one.peer === peer);
  const isUndone = audits.records.some(({ unconfirmed }) => unconfirmed.some(({ step }) => step >= committedSteps));
  const isSame = pending.length === audits.pending.length && audits.records.every(({ peer }) => isKept(peer));
  if (isSame && !isUndone) return audits;
  const records = audits.records.flatMap((record) =>
    isKept(record.peer)
      ? { ...record, unconfirmed: record.unconfirmed.filter(({ step }) => step < committedSteps) }
      : [],
  );
  const undone = counted({ ...audits, pending, records }, 'undone', audits.pending.length - standing.length);
  return counted(undone, 'void', standing.length - pending.length);
}

/** Of a part of the donors, who are a group of their own from now on. `isFirst`: what is of all of them goes with this one. */
export function auditsOf(audits: Audits, isIn: (peer: PeerId) => boolean, isFirst: boolean): Audits {
  const records = audits.records.filter(({ peer }) => isIn(peer));
  const pending = audits.pending.filter(({ peer }) => isIn(peer));
  return isFirst ? { ...audits, records, pending } : { ...NO_AUDITS, waryFrom: audits.waryFrom, records, pending };
}

/** Of groups that are one again. */
export function auditsOfAll(all: readonly Audits[]): Audits {
  const sum = (of: (audits: Audits) => number): number => totalOf(all, of);
  const wary = all.flatMap(({ waryFrom }) => waryFrom ?? []);
  return {
    drawn: sum(({ drawn }) => drawn),
    pending: all.flatMap(({ pending }) => pending),
    counts: {
      agreed: sum(({ counts }) => counts.agreed),
      convicted: sum(({ counts }) => counts.convicted),
      undone: sum(({ counts }) => counts.undone),
      void: sum(({ counts }) => counts.void),
      notReached: sum(({ counts }) => counts.notReached),
    },
    movedBytes: sum(({ movedBytes }) => movedBytes),
    evidenceBytes: sum(({ evidenceBytes }) => evidenceBytes),
    records: all.flatMap(({ records }) => records),
    waryFrom: wary.length > 0 ? Math.max(...wary) : null,
  };
}
