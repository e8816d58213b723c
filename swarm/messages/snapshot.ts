/** What the pages show of a run, all of it one value, made by the server: its word is the truth. */
import { z } from 'zod';
import { block, count, peer, range } from '../fields.ts';
import { adapterSchema, linkReportSchema } from './profile.ts';
import { turnErrorSchema } from './turn.ts';

const phase = z.enum(['waiting', 'preparing', 'training', 'evaluating', 'saving', 'paused', 'finished']);
export type SnapshotPhase = z.infer<typeof phase>;

/** What a run's state is called, on every page and in `/api/status`: the sentence beside it tells the rest. */
export const STATE_WORDS = {
  waiting: 'standby',
  preparing: 'starting',
  training: 'training',
  evaluating: 'training',
  saving: 'training',
  paused: 'paused',
  finished: 'finished',
} as const satisfies Readonly<Record<SnapshotPhase, string>>;

export const snapshotSchema = z.object({
  run: z.string(),
  phase,
  /** Paused by a stop: everything is saved, and donors are told that nothing is left for now. */
  isStopped: z.boolean().optional(),
  /** Paused because what comes out is not finite, whoever computes it. */
  hasDiverged: z.boolean().optional(),
  /** Paused because the server can save nothing now: it goes on by itself when it can, and not before. */
  cannotSave: z.literal(true).optional(),
  /** Waiting, and donors of before the server began are awaited: they bring what they had. */
  isReturning: z.literal(true).optional(),
  /** The operator chose this run: the server changes to it once the step under way has ended. Absent: the run stays. */
  changesTo: z.string().max(200).optional(),
  /** The first run of the queue. Absent: there is none. */
  next: z.string().max(200).optional(),
  /** A plan was looked for with one donor more, and left it out, as the same donors trained. Absent: it is not known. */
  isFull: z.literal(true).optional(),
  /** One sentence about the phase: who is waited for, why it paused. */
  sentence: z.string(),
  /** Blocks a part of which only one donor has, though the plan has it copied. Absent: none. */
  uncopied: z.array(block).optional(),
  generation: count,
  epoch: count,
  /** Committed steps, and how many the run has. */
  committedSteps: count,
  steps: count,
  /** Of a run that ends with its time, whose `steps` are then those that there will be at its pace. Absent: it has a number of them. */
  time: z.object({ seconds: z.number(), usedSeconds: z.number() }).optional(),
  loss: z.number().nullable(),
  /** What a loss is a mean over. Absent: tokens. */
  lossPer: z.literal('pair').optional(),
  evaluationLoss: z.number().nullable(),
  /** The share of the questions that the newest evaluation whose answers are in found answered right. Absent: there is none. */
  answersRight: z.number().min(0).max(1).optional(),
  tokensPerSecond: z.number().nullable(),
  donors: z.array(
    z.object({
      peer,
      adapter: adapterSchema,
      /** computing: in the plan. spare: no place for it. paused: by its own button. */
      state: z.enum(['joining', 'computing', 'spare', 'paused']),
      stages: z.array(z.object({ stage: count, layers: range })),
      tokens: z.number(),
    }),
  ),
  /** Further ones, who compute nothing and have computed nothing. Absent: none. */
  others: count.optional(),
  /** With islands: who computes which, one entry a group of donors. A group of several computes them by turns. */
  groups: z
    .array(
      z.object({
        donors: z.array(peer),
        /** The one that is under way. */
        round: count,
        /** Whose turn it is; null: its round is over, and it waits for the meeting. */
        active: count.nullable(),
        /** `innerStep`: how many steps of the round stand, of so many; null: of as many as its time allows. */
        islands: z.array(z.object({ number: count, innerStep: count, innerSteps: count.nullable() })),
      }),
    )
    .optional(),
  /** The ways between the plan's donors, each direction by itself; for the operator. Absent: as they were told before. */
  links: z.array(linkReportSchema.extend({ from: peer })).optional(),
  /** TURN servers that gave so many donors no address; for the operator. Absent: none. */
  turnErrors: z.array(turnErrorSchema.extend({ donors: count })).optional(),
  /** What holds up a step of the plan in force (planner/limits.ts); for the operator. Absent: its donors have not measured enough. */
  limit: z
    .object({
      epoch: count,
      kind: z.enum(['compute', 'line', 'parts', 'exchange', 'copies']),
      peers: z.array(peer),
      gain: z.number(),
    })
    .optional(),
  /** Under `--schedule auto`: why the plan in force is as it is, and how its prediction holds; for the operator. */
  planning: z
    .object({
      epoch: count,
      reason: z.string(),
      /** Of a step; null: a member has measured nothing. */
      predictedSeconds: z.number().nullable(),
      /** Median of this plan's newest steps. */
      measuredSeconds: z.number().nullable(),
      /** Each with whom it is about; null: the whole plan. */
      reasons: z.array(z.object({ peer: peer.nullable(), text: z.string() })),
      /** What the newest look for a better plan came to. */
      verdict: z.string().nullable(),
    })
    .optional(),
});
export type Snapshot = z.infer<typeof snapshotSchema>;

/** So many who compute nothing and have computed nothing are named to donors. */
const IDLE_NAMED = 200;

/** As donors are told it: a crowd that waits makes it no longer. Whoever is not named there has no tokens and no stage. */
export function forDonors(snapshot: Snapshot): Snapshot {
  const isIdle = ({ state, tokens, stages }: Snapshot['donors'][number]): boolean =>
    state !== 'computing' && tokens === 0 && stages.length === 0;
  const unnamed = new Set(snapshot.donors.filter(isIdle).slice(IDLE_NAMED));
  const donors = snapshot.donors.filter((donor) => !unnamed.has(donor));
  return unnamed.size === 0 ? snapshot : { ...snapshot, donors, others: unnamed.size };
}
