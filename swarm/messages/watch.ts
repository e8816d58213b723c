/** What the server tells an operator's page, and what the page may ask of it. Rules WP and OP in SPEC.md. */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import { limitsSchema } from '../limits.ts';
import { STEP_TENSORS } from '../plan/stepTraffic.ts';
import { COMPUTE_PRECISIONS } from '../precision.ts';
import { profileSchema } from './profile.ts';
import { snapshotSchema } from './snapshot.ts';

export const OPERATOR_COMMANDS = ['start', 'pause', 'resume', 'stop'] as const;
export type OperatorCommand = (typeof OPERATOR_COMMANDS)[number];

const count = z.int().min(0);
const name = z.string().max(64);

/** A committed step. */
export const watchedStepSchema = z.object({
  step: count,
  loss: z.number(),
  gradientNorm: z.number(),
  learningRate: z.number(),
  tokens: z.number(),
  seconds: z.number(),
  donors: count,
  stages: count,
  microBatches: count,
  plan: count,
  bytesDirect: z.number(),
  bytesRelayed: z.number(),
  /** Share of the donors' time that was idle; absent where their spans are not kept any more. */
  bubble: z.number().optional(),
  /** Tensor bytes by what they are; absent where the step's plan is not kept any more. */
  traffic: z.record(z.enum(STEP_TENSORS), z.number()).optional(),
});
export type WatchedStep = z.infer<typeof watchedStepSchema>;

/** What an operator may want to see marked: everything that changes who computes, or which steps stand. */
export const EVENT_KINDS = [
  'joined',
  'left',
  'gone',
  'plan',
  'checkpoint',
  'rollBack',
  'fault',
  'finished',
  'failed',
  'operator',
] as const;
/** How the text of a fault begins that was a link's: the ways between donors are looked at apart. */
export const LINK_LOST = 'lost its link';
export type EventKind = (typeof EVENT_KINDS)[number];

const eventSchema = z.object({
  id: count,
  atMs: z.number(),
  /** Committed steps when it happened. */
  step: count,
  kind: z.enum(EVENT_KINDS),
  peer: name.nullable(),
  text: z.string(),
});
export type WatchedEvent = z.infer<typeof eventSchema>;

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
  predictedBytes: z.number().nullable(),
  peakBytes: z.number().nullable(),
});
export type PeerFacts = z.infer<typeof peerFactsSchema>;

const planInForceSchema = z.object({
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

/** Bytes that went through the server itself since it began, by what they are. */
export const SERVED_KINDS = ['tokens', 'state', 'checkpoint'] as const;
export type ServedKind = (typeof SERVED_KINDS)[number];

const watchSchema = z.object({
  snapshot: snapshotSchema,
  /** The newest steps, oldest first: at least those that were not sent before. */
  recent: z.array(watchedStepSchema),
  /** The newest events that were not sent before, oldest first. */
  events: z.array(eventSchema),
  /** The rest is there when it is another one than before. Held-out losses after so many steps. */
  evaluations: z.array(z.tuple([count, z.number()])).optional(),
  peers: z.array(peerFactsSchema).optional(),
  plan: planInForceSchema.nullable().optional(),
  /** Steps whose spans are kept, the first and the last. */
  traces: z.tuple([count, count]).nullable().optional(),
  alertLimits: alertLimitsSchema.optional(),
  /** tokens and state to donors, checkpoints from them. */
  served: z.record(z.enum(SERVED_KINDS), z.number()).optional(),
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
    return refusal('the message is no JSON');
  }
  const parsed = schema.safeParse(json);
  return parsed.success ? success(parsed.data) : refusal(z.prettifyError(parsed.error));
}
