/**
 * Every word between a donor and the server: two unions, checked by schema on arrival, named after their sender. The
 * first message of a connection is `hello` with the protocol version; the answer is `welcome` or `refused` with a
 * reason from a closed list. A donor that was welcomed checks its GPU and says `measured`: then it is admitted. Rules WP
 * in SPEC.md.
 */
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../base.ts';
import {
  block,
  bytes,
  count,
  digest,
  FAULT_REASONS,
  faultWords,
  hash,
  instant,
  memory,
  peer,
  range,
  sentence,
} from '../fields.ts';
import { limitsSchema } from '../limits.ts';
import { blockStates, islandList, planSchema } from '../plan/plan.ts';
import { MOST_ISLANDS } from '../run/runFile.ts';
import { answeredMessage, answerMessage, unansweredMessage } from './answerWords.ts';
import { copySchema, excused } from './checkpointWords.ts';
import { heardSchema, howItIsHeld, meetingOwnersSchema } from './meetingWords.ts';
import { adapterSchema, linkReportSchema, profileSchema, rate } from './profile.ts';
import { REFUSAL_REASONS } from './refusals.ts';
import { runFactsSchema } from './runFacts.ts';
import { snapshotSchema } from './snapshot.ts';
import { MOST_TURN_ERRORS, turnErrorSchema } from './turn.ts';

export const PROTOCOL_VERSION = 1;
/** A donor's message may not be longer; signaling data and a report of 1,000 shards fit with room. */
export const MESSAGE_BYTES_LIMIT = 262_144;
/** A donor says that it lives every second. */
export const HEARTBEAT_MS = 1_000;

/** What may be looked at in an epoch that is checked. */
const CHECKED_KINDS = ['activation', 'gradient', 'slice', 'values', 'heldOut', 'state', 'loss', 'norm'] as const;
/**
 * The first tensor that this donor met in a checked epoch that is not sound (`isSound` in wire.ts): what it is, as in a
 * frame's key. Absent `from`: it made this itself, and all that it had got until then was sound.
 */
const unsoundTensor = z.object({ kind: z.enum(CHECKED_KINDS), stage: count, index: count, from: peer.optional() });
export type UnsoundTensor = z.infer<typeof unsoundTensor>;

/** What a primary or replica of one shard has of the step's gradients. */
const shardReport = z.object({
  block,
  range,
  /** Of its gradient. The primary's makes the norm; a replica's, of the same slices, is held against it. */
  sumSquares: z
    .number()
    .min(0)
    .or(z.enum(['NaN', 'Infinity'])),
  /** Of each slice that it added, in the order of their sum; null where nobody else keeps the shard. */
  digests: z.array(digest).max(65_536).nullable(),
});

/**
 * Why a donor has no part: a plan that may use it is being looked for, every place is taken, no step would be shorter with
 * it, or its address has to wait.
 */
const SPARE_REASONS = ['queued', 'full', 'noGain', 'mustWait'] as const;
export type SpareReason = (typeof SPARE_REASONS)[number];

/** A report tells of so many spans of its step at most, the first ones: it has to fit a message. */
export const MOST_SPANS = 1_000;
/** And of so many behind a step. */
export const MOST_SPANS_BEHIND = 64;
const spanSchema = z.object({
  action: z.string().max(40),
  start: instant,
  end: instant,
  /** At a share of the GPU's time: what this work takes alone, as the donor spaces its work by. */
  aloneSeconds: z.number().positive().max(1e6).optional(),
});
const behindSchema = spanSchema.omit({ aloneSeconds: true });

/** Words of the other end since this conversation began, on whatever connections (`Spoken`). */
const heard = count;

/**
 * How far a member is with the step that it began last. `done` grows with each piece of work and each frame; `waitsFor`:
 * whose tensors it lacks, and who has not taken its own. `hasEvaluated`: its part of the evaluation after that step is done.
 */
const stepProgress = z.object({
  ...{ epoch: count, step: count, done: count },
  waitsFor: z.array(peer).max(16),
  hasReported: z.boolean(),
  hasEvaluated: z.literal(true).optional(),
});
export type StepProgress = z.infer<typeof stepProgress>;

/** `met`: of a donor of one of several groups, the steps that stood at the last meeting that is in its state. */
const standing = z.object({ epoch: count, step: count, met: count.optional() });
export type Standing = z.infer<typeof standing>;

/** The newest committed step, with what its update is done with. */
const lastCommitSchema = z.object({ epoch: count, step: count, clipScale: z.number(), learningRate: z.number() });
export type LastCommit = z.infer<typeof lastCommitSchema>;

export const peerMessageSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    protocol: count,
    adapter: adapterSchema,
    invite: z.string().max(200).optional(),
    /** Of a donor that the server opened itself: what the server put into its link. */
    own: z.string().max(200).optional(),
    limits: limitsSchema.optional(),
    /** A random name that this browser remembers for this server: its measurements are found again by it. */
    key: z
      .string()
      .regex(/^[\w-]{16,64}$/)
      .optional(),
    /** One that was here before, and kept what it had: its name then, and the key that its `welcome` brought. */
    resume: z.object({ peer, key: z.string().max(64), heard }).optional(),
  }),
  /** The kernels' check is passed: this donor may be planned for. Once, after `welcome`. */
  z.object({ type: z.literal('measured'), profile: profileSchema }),
  /**
   * After `measured`, of one that came back under its name: after how many updates its state stands, and under which epoch's
   * plan. `role`: all that it holds and keeps there. `handedOver`: a copy of what it had under a plan before that.
   */
  z.object({
    type: z.literal('resumed'),
    generation: count,
    role: standing.nullable(),
    handedOver: standing.nullable(),
  }),
  /** Changed while it computes. Memory counts from the next plan on. */
  z.object({ type: z.literal('limits'), limits: limitsSchema }),
  z.object({ type: z.literal('heartbeat'), heard: heard.optional(), at: stepProgress.optional() }),
  /** Opaque to the server: an offer, an answer or a candidate for another donor of the same plan. */
  z.object({
    type: z.literal('signal'),
    to: peer,
    epoch: count,
    /** Of this pair in this epoch, from 0. */
    attempt: count.optional(),
    data: z.string().max(65_536),
  }),
  /** The answer to `warm`: pipelines compiled, tokens there, links open. */
  z.object({ type: z.literal('warmed'), number: count }),
  /** Pipelines compiled, blocks, moments and tokens there, links open. `memoryBytes` counts every buffer of the GPU, `hostBytes` what is kept in main memory; absent: none. */
  z.object({ type: z.literal('ready'), epoch: count, memoryBytes: memory, hostBytes: memory.exactOptional() }),
  z.object({
    type: z.literal('report'),
    epoch: count,
    step: count,
    /** Sum of the cross-entropies (nats) of each micro-batch this peer carried through the last stage. JSON has no NaN: null. */
    losses: z.array(z.object({ microBatch: count, lossSum: z.number().nullable() })).max(65_536),
    shards: z.array(shardReport).max(65_536),
    /** Of each slice that it sent of other shards that have a replica, in the plan's order. Absent: there are none. */
    sent: z.array(digest).max(65_536).optional(),
    /** Under a plan that is audited: of each activation, gradient and slice that it sent or got, in the plan's order. */
    committed: z.array(digest).max(65_536).optional(),
    bytesDirect: bytes,
    bytesRelayed: bytes,
    spans: z.array(spanSchema).max(MOST_SPANS),
    /** Behind the report of that step: its update, its new values, with islands how its turn ended. Absent: told already. */
    behind: z.object({ step: count, spans: z.array(behindSchema).max(MOST_SPANS_BEHIND) }).optional(),
    links: z.array(linkReportSchema).max(1_024).optional(),
    /** What all its links carried at once. */
    uploadBytesPerSecond: rate.optional(),
    /** As its newest connections found them. Absent: all gave an address, or nothing is known. */
    turnErrors: z.array(turnErrorSchema).max(MOST_TURN_ERRORS).optional(),
    unsound: unsoundTensor.optional(),
  }),
  /** The answer to `probe`, where the link opened: of this end. */
  linkReportSchema.pick({ peer: true, roundTripMs: true, bytesPerSecond: true }).extend({ type: z.literal('probed') }),
  z.object({
    type: z.literal('evaluated'),
    epoch: count,
    step: count,
    losses: z.array(z.object({ microBatch: count, lossSum: z.number().nullable() })).max(65_536),
    unsound: unsoundTensor.optional(),
  }),
  z.object({
    type: z.literal('uploaded'),
    epoch: count,
    /** Steps committed before this state: checkpoint s+1 is the state after step s. */
    step: count,
    shards: z.array(z.object({ block, range, hash })).max(65_536),
    /** What it has of shards that it keeps and others upload. Absent: there are none. */
    copies: z.array(copySchema).max(65_536).optional(),
  }),
  /**
   * The meeting of this attempt has been held here: what came out of it, cut where any group's state is (`meetingCuts`), is
   * kept beside what there was until `meetingOver`. Bytes: of its packets, and of the values that it will send then.
   */
  z.object({
    ...{ type: z.literal('met'), epoch: count, round: count, attempt: count },
    digests: z.array(z.object({ block, range, digest })).max(65_536),
    /** Of what it owns from then on. */
    owned: z.array(z.object({ block, range, digest })).max(65_536).optional(),
    heard: heardSchema.optional(),
    ...{ bytesDirect: bytes, bytesRelayed: bytes },
  }),
  /** It cannot go on with this epoch, or this attempt at a meeting (an older page does not say which); about whom, where it is about one. */
  z.object({
    ...{ type: z.literal('fault'), epoch: count, attempt: count.optional() },
    reason: z.enum(FAULT_REASONS),
    about: peer.optional(),
    detail: sentence,
  }),
  answeredMessage,
  unansweredMessage,
  z.object({ type: z.literal('pause') }),
  z.object({ type: z.literal('resume') }),
  z.object({ type: z.literal('leave') }),
]);
export type PeerMessage = z.infer<typeof peerMessageSchema>;
export type HelloMessage = Extract<PeerMessage, { type: 'hello' }>;
export type HeartbeatMessage = Extract<PeerMessage, { type: 'heartbeat' }>;
export type ReportMessage = Extract<PeerMessage, { type: 'report' }>;
export type ProbedMessage = Extract<PeerMessage, { type: 'probed' }>;
export type MetMessage = Extract<PeerMessage, { type: 'met' }>;
export type ResumedMessage = Extract<PeerMessage, { type: 'resumed' }>;
export type EvaluatedMessage = Extract<PeerMessage, { type: 'evaluated' }>;

/**
 * Where the state of `step` committed steps is when a plan begins. checkpoint: at the server. kept: the same plan again,
 * primaries keep what they have and send its values to the holders once more. peers: with the members of this plan of
 * an earlier epoch, who send each other and the newcomers what `swarm/plan/handover.ts` lists; a member that the new plan has
 * no place for hands over too, and is let go by `standby`. salvaged: members of it are gone, and the plan names as the
 * primary of each shard who has it now; only what keepers have counts, not values that others computed with.
 */
export type StateSource = z.infer<typeof sourceSchema>;
const sourceSchema = z.discriminatedUnion('from', [
  z.object({ from: z.literal('checkpoint'), step: count }),
  z.object({ from: z.literal('kept') }),
  z.object({
    from: z.literal('peers'),
    epoch: count,
    plan: planSchema,
    salvaged: z.literal(true).optional(),
    /** Replicas get what they lack beside the plan's steps. */
    late: z.literal(true).optional(),
  }),
]);

export const serverMessageSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    protocol: count,
    peer,
    /** Bearer of this donor's HTTP calls: tokens, state, uploads. */
    token: z.string(),
    /** What its next `hello` proves by that it was this peer. */
    resumeKey: z.string(),
    /**
     * The conversation goes on that broke, and nothing here is news: each end says again what the other has not heard. Null:
     * one begins.
     */
    heard: heard.nullable(),
    run: runFactsSchema,
    iceServers: z.array(z.record(z.string(), z.unknown())),
    generation: count,
    epoch: count,
    committedSteps: count,
    /** Null: there is none, or the run went back since. */
    lastCommit: lastCommitSchema.nullable(),
    /** Of a donor that comes back to one of several groups, whose the last commit is: the steps that stand since they met. */
    met: count.optional(),
    /** For this donor's probe of its memory. */
    memory: z.object({
      /** What the largest run that was drafted, or may be, needs of one donor alone. */
      draftedBytes: z.int().min(0),
      /** What it found on an earlier visit. */
      known: z.object({ memoryBytes: memory, memoryTriedBytes: memory }).nullable(),
    }),
  }),
  z.object({
    type: z.literal('refused'),
    reason: z.enum(REFUSAL_REASONS),
    detail: sentence,
    /** After which it may be otherwise; null: this is final. */
    retrySeconds: z.int().min(0).nullable(),
  }),
  /**
   * Another process of the site leads from now on: say hello again, over this same connection. Until then nothing that is said
   * is heard.
   */
  z.object({ type: z.literal('helloAgain') }),
  z.object({ type: z.literal('signal'), from: peer, epoch: count, attempt: count.optional(), data: z.string() }),
  /**
   * A plan that takes over next, when all of its members have answered: compile its stages, get its tokens, open its links;
   * meanwhile the plan in force goes on. `epoch`: the next one, as far as is known; signals of these links are of it.
   */
  z.object({ type: z.literal('warm'), number: count, epoch: count, step: count, plan: planSchema }),
  /** A new epoch: get the state from `source`, build these stages, connect to whom the plan makes you talk to, say ready. */
  z.object({
    type: z.literal('prepare'),
    epoch: count,
    generation: count,
    /** The first step to be done with this plan: so many are committed. */
    step: count,
    source: sourceSchema,
    plan: planSchema,
    /** With several groups: so many stood at their last meeting. */
    met: count.optional(),
    /** Look at every tensor that comes or is made, and say which was the first that is not sound. */
    check: z.literal(true).optional(),
    /** Say digests of what is sent and got with each report, and keep a step's streams until it is committed. */
    audited: z.literal(true).optional(),
    /** With these the tensors go through the server. */
    relayed: z.array(peer).optional(),
  }),
  z.object({
    type: z.literal('start'),
    epoch: count,
    step: count,
    /** What the step's gradients are multiplied with; absent: 1. */
    lossScale: z.number().min(1).optional(),
    /** What the step's loss is a mean over: its rows that count, or its preference pairs; absent: all B·T rows. */
    counted: count.min(1).optional(),
    /** Of what replicas get beside the plan's steps, in the list's order: from which to before which. Absent: nothing. */
    copies: z.tuple([count, count]).optional(),
    /** Where rounds are recorded: which number it is, and which update of the island. */
    turn: z.object({ number: count, time: count }).optional(),
  }),
  z.object({ type: z.literal('evaluate'), epoch: count, step: count }),
  z.object({
    type: z.literal('committed'),
    epoch: count,
    step: count,
    clipScale: z.number(),
    learningRate: z.number(),
    /** Upload the shards after this update, as checkpoint `step + 1`. */
    checkpoint: z.boolean(),
    excused,
    /** Before this update: upload what it has of the evidence of each of these audits. */
    evidence: z
      .array(z.object({ audit: count, stage: count, peer }))
      .max(1_024)
      .optional(),
  }),
  /** Upload the shards as they stand at this boundary, as checkpoint `step`: what the commit asked for went with a donor. */
  z.object({ type: z.literal('save'), epoch: count, step: count, excused }),
  /**
   * Every group has ended this round: send each other what the islands changed, and work out what comes of it. `epoch`: of the
   * plan that this donor is in. `attempt` rises with every meeting of the run that is begun.
   */
  z.object({
    ...{ type: z.literal('meet'), epoch: count, round: count, attempt: count },
    /** How many steps each island did in this round. */
    steps: z.array(count).min(1).max(0x10000),
    /** Where rounds are recorded: so many steps stand committed when it is over. */
    end: count.optional(),
    /** Each with the epoch of its plan. */
    groups: z
      .array(z.object({ epoch: count, islands: islandList, state: blockStates }))
      .min(1)
      .max(MOST_ISLANDS),
    ...howItIsHeld,
    owners: meetingOwnersSchema.optional(),
  }),
  /** What came out of this round's meeting is the state from now on; `beside`: with what was done of the next round since. */
  z.object({
    ...{ type: z.literal('meetingOver'), epoch: count, round: count, end: count.optional() },
    beside: z.literal(true).optional(),
  }),
  /** Drop everything of this epoch: nothing of its step in progress counts. */
  z.object({ type: z.literal('abandon'), epoch: count, detail: sentence }),
  z.object({ type: z.literal('snapshot'), snapshot: snapshotSchema }),
  /** Everyone who has a cap on what it receives: its senders share it. Whoever is not in it takes what comes. */
  z.object({
    type: z.literal('limits'),
    downloads: z.array(z.object({ peer, bytesPerSecond: z.number().positive() })),
  }),
  answerMessage,
  /**
   * Measure the direct way to a donor that the plan has nothing to do with, who is asked the same at this moment. Signals
   * about it are of this epoch.
   */
  z.object({ type: z.literal('probe'), peer, epoch: count }),
  /** Confirms a button: the donor is out of the plan, its shards are safe. `why`: of a spare one. */
  z.object({
    type: z.literal('standby'),
    state: z.enum(['paused', 'left', 'spare', 'finished']),
    why: z.enum(SPARE_REASONS).optional(),
    /** Of one that is queued: 1 is the first of those without a part. */
    place: count.optional(),
  }),
]);
export type ServerMessage = z.infer<typeof serverMessageSchema>;
export type MeetMessage = Extract<ServerMessage, { type: 'meet' }>;

/** What `PUT /api/state` answers: the SHA-256 of the bytes it stored. */
export const uploadAnswerSchema = z.object({ hash });

function decode<T>(schema: z.ZodType<T>, text: string): Result<T> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return refusal('the message is not valid JSON');
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return success(parsed.data);
  const [issue] = parsed.error.issues;
  invariant(issue, 'a failed parse has an issue');
  return refusal(`${issue.path.join('.') || 'the message'} ${faultWords(issue)}`);
}

export const decodePeerMessage = (text: string): Result<PeerMessage> => decode(peerMessageSchema, text);
export const decodeServerMessage = (text: string): Result<ServerMessage> => decode(serverMessageSchema, text);
