/** What the server tells an operator's page, and what the page may ask of it. */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import { count, FAULT_REASONS, memory } from '../fields.ts';
import { limitsSchema } from '../limits.ts';
import { COMPUTE_PRECISIONS } from '../precision.ts';
import { STEP_TENSORS } from './frame.ts';
import { adapterSchema, profileSchema } from './profile.ts';
import { rehearsalsSchema } from './rehearsal.ts';
import { snapshotSchema } from './snapshot.ts';

export const OPERATOR_COMMANDS = ['start', 'pause', 'resume', 'stop'] as const;
export type OperatorCommand = (typeof OPERATOR_COMMANDS)[number];

const name = z.string().max(64);
const WORDS_LIMIT = 400;

/** A committed step. */
export const watchedStepSchema = z.object({
  step: count,
  /** With islands: its place in the order of samples and rates, which curves go by. Absent: `step`. */
  number: count.optional(),
  /** With islands: whose step it is, from 0. */
  island: count.optional(),
  loss: z.number(),
  gradientNorm: z.number(),
  learningRate: z.number(),
  tokens: z.int().min(0),
  seconds: z.number(),
  donors: count,
  stages: count,
  microBatches: count,
  plan: count,
  bytesDirect: z.int().min(0),
  bytesRelayed: z.int().min(0),
  /** Share of the donors' time that was idle; absent where their spans are not kept any more. */
  bubble: z.number().optional(),
  /** Tensor bytes by what they are; absent where the step's plan is not kept any more. */
  traffic: z.record(z.enum(STEP_TENSORS), z.int().min(0)).optional(),
});
export type WatchedStep = z.infer<typeof watchedStepSchema>;

/** A donor's or the coordinator's own words; what they quote may be longer. */
const words = z.string().transform((text) => text.slice(0, WORDS_LIMIT));

/**
 * What happened in a run: everything that changes who computes, or which steps stand. The store keeps it as JSON without
 * its kind, which is a column; the sentence for people is written by the page (eventText.ts).
 */
const happenedSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('joined'),
    peer: name,
    adapter: adapterSchema.pick({ vendor: true, architecture: true, description: true }),
  }),
  /** `detail`: not by its button, but while it had no part, so that nothing was lost. */
  z.object({ kind: z.literal('left'), peer: name, detail: words.optional() }),
  z.object({ kind: z.literal('gone'), peer: name, detail: words }),
  z.object({
    kind: z.literal('plan'),
    epoch: count,
    reason: words,
    donors: count,
    stages: count,
    microBatches: count,
    schedule: z.string(),
  }),
  z.object({ kind: z.literal('checkpoint') }),
  /** The run cannot go on from the checkpoint after that step, and has it no more. */
  z.object({ kind: z.literal('setAside'), reason: words }),
  /** `atStep` was given up, `toStep` is the first one done again. */
  z.object({ kind: z.literal('rollBack'), atStep: count, toStep: count, reason: words }),
  z.object({
    kind: z.literal('fault'),
    peer: name,
    reason: z.enum(FAULT_REASONS),
    /** The other end, where it was a link's. */
    about: name.optional(),
    detail: words,
  }),
  /** What it did came out differently where it was done again; from `firstStep` on all is undone. */
  z.object({ kind: z.literal('convicted'), peer: name, stage: count, firstStep: count, evidence: words }),
  z.object({ kind: z.literal('finished') }),
  z.object({ kind: z.literal('failed') }),
  /** `session`: a name of the operator's session. */
  z.object({ kind: z.literal('operator'), what: words, session: z.string() }),
]);
export type Happened = z.infer<typeof happenedSchema>;
export type EventKind = Happened['kind'];
export const EVENT_KINDS: readonly EventKind[] = happenedSchema.options.map(({ shape }) => shape.kind.value);

/** `step`: committed steps when it happened. */
export const watchedEventSchema = happenedSchema.and(z.object({ id: count, atMs: z.number(), step: count }));
export type WatchedEvent = z.infer<typeof watchedEventSchema>;

/** What the server knows of a donor beside what everyone is shown. */
const peerFactsSchema = z.object({
  peer: name,
  /** That its person chose for everyone to see. */
  name: z.string().nullable(),
  limits: limitsSchema,
  profile: profileSchema.nullable(),
  /** With halves in a run that asks for f16, where its adapter has them. */
  compute: z.enum(COMPUTE_PRECISIONS),
  /** Faults that it told of since it came. */
  faults: count,
  /** GPU bytes, the most of all its plans; null before the first one. */
  predictedBytes: z.int().min(0).nullable(),
  peakBytes: memory.nullable(),
});
export type PeerFacts = z.infer<typeof peerFactsSchema>;

export const planInForceSchema = z.object({
  epoch: count,
  reason: z.string(),
  schedule: z.string(),
  microBatches: z.array(z.object({ id: count, samples: z.tuple([count, count]) })),
  stages: z.array(
    z.object({
      layers: z.tuple([count, count]),
      members: z.array(
        z.object({ peer: name, microBatches: z.array(count), samples: count, recompute: z.array(count) }),
      ),
      /** Who keeps copies of its state, beside those who have it first. */
      copies: z.array(name),
    }),
  ),
});
export type PlanInForce = z.infer<typeof planInForceSchema>;

/** When an operator wants to be told; kept with the run. */
export const alertLimitsSchema = z.object({
  /** Fewer donors that compute are too few. */
  donors: z.int().min(0).max(10_000),
  /** Steps may go on so long without a checkpoint. */
  checkpointMinutes: z.number().min(1).max(100_000),
  /** No step for so long is too long. */
  stalledSeconds: z.number().min(5).max(1_000_000),
});
export type AlertLimits = z.infer<typeof alertLimitsSchema>;
export const INITIAL_ALERT_LIMITS: AlertLimits = { donors: 1, checkpointMinutes: 30, stalledSeconds: 30 };

const isWebAddress = (text: string): boolean => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
const hasCredentials = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== '' || password !== '';
};

/** Whom the server tells of alerts; empty: nobody. */
export const webhookSchema = z
  .string()
  .max(1_000, 'the address may have at most 1,000 characters')
  .refine((text) => text === '' || isWebAddress(text), 'the address must begin with https:// or http://')
  // fetch refuses them.
  .refine((text) => !hasCredentials(text), 'the address may have no user name and no password before its host');

/** Bytes that went through the server itself since it began, by what they are. */
export const SERVED_KINDS = ['tokens', 'state', 'base', 'checkpoint'] as const;
export type ServedKind = (typeof SERVED_KINDS)[number];

/** A viewer sees what an operator sees, and changes nothing. */
export const ROLES = ['operator', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

const rightAnswersSchema = z.object({
  ...{ committedSteps: count, share: z.number().min(0).max(1) },
  ...{ fromStep: count, toStep: count },
});
export type WatchedAnswers = z.infer<typeof rightAnswersSchema>;

const watchSchema = z.object({
  snapshot: snapshotSchema,
  /** Of this session. */
  role: z.enum(ROLES).optional(),
  /** Of a run by invitation, for operators: what its links carry. */
  invite: z.string().optional(),
  /** The newest steps, oldest first: at least those that were not sent before. */
  recent: z.array(watchedStepSchema),
  /** The newest events that were not sent before, oldest first. */
  events: z.array(watchedEventSchema),
  /** The rest is there when it is another one than before. Held-out losses after so many steps. */
  evaluations: z.array(z.tuple([count, z.number()])).optional(),
  /** Shares of right answers at these evaluations, and after which steps the weights were that answered. */
  rightAnswers: z.array(rightAnswersSchema).optional(),
  peers: z.array(peerFactsSchema).optional(),
  plan: planInForceSchema.nullable().optional(),
  /** Of other groups with islands of their own, where `plan` is of one: that is the newest. */
  plansBeside: z.array(planInForceSchema).optional(),
  /** Steps whose spans are kept, the first and the last. */
  traces: z.tuple([count, count]).nullable().optional(),
  alertLimits: alertLimitsSchema.optional(),
  /** On the disk where runs are kept, in whole tenths of a gigabyte; null: not known. */
  freeBytes: z.number().min(0).nullable().optional(),
  /** Tokens, state and what stands to donors, checkpoints from them. */
  served: z.record(z.enum(SERVED_KINDS), z.int().min(0)).optional(),
  rehearsals: rehearsalsSchema.optional(),
});
export type WatchMessage = z.infer<typeof watchSchema>;

const spanSchema = z.tuple([name, z.string().max(40), z.number(), z.number()]);
/** One step as it was and as it was predicted: peer, action, start and end in seconds of one clock. */
export const stepTimelineSchema = z.object({
  step: count,
  epoch: count,
  bubble: z.number(),
  measured: z.array(spanSchema),
  /** Empty where a donor of the plan is gone, or measured nothing. */
  predicted: z.array(spanSchema),
  /** The plan of that step; null where it is not kept any more. */
  plan: planInForceSchema.nullable(),
});
export type StepTimeline = z.infer<typeof stepTimelineSchema>;

export function decodeWatchMessage(text: string): Result<WatchMessage> {
  return decodeAs(watchSchema, text);
}

function decodeAs<T>(schema: z.ZodType<T>, text: string): Result<T> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return refusal('the message is not valid JSON');
  }
  const parsed = schema.safeParse(json);
  return parsed.success ? success(parsed.data) : refusal(z.prettifyError(parsed.error));
}
