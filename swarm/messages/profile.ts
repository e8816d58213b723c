/**
 * What a donor says of itself as it measured it: its adapter, how fast it is, its ways to others. These are claims, which
 * the server bounds and plans with.
 */
import { z } from 'zod';
import { count, memory, peer, seconds, sentence } from '../fields.ts';
import { MOST_STREAMS } from '../plan/planLink.ts';
import type { TurnError } from './turn.ts';

/** What a donor is, as it measured itself. */
export const adapterSchema = z.object({
  vendor: z.string().max(200),
  architecture: z.string().max(200),
  description: z.string().max(200),
  software: z.boolean(),
  browser: z.string().max(200),
  /** It has shader-f16 and kernels for it: in a run that asks for f16 it computes with halves. */
  halves: z.boolean().optional(),
});
export type AdapterProfile = z.infer<typeof adapterSchema>;

const limit = (guaranteed: number) =>
  z
    .int()
    .min(guaranteed)
    .max(2 ** 50);
/** What the device that a donor computes on allows at most. No adapter has less than WebGPU guarantees. */
const deviceLimitsSchema = z.object({
  /** Of one buffer. */
  bufferBytes: limit(2 ** 28),
  /** Of what a kernel binds of a buffer. */
  bindingBytes: limit(2 ** 27),
  /** That a kernel binds. */
  storageBuffers: limit(8),
  workgroupBytes: limit(16_384),
  /** Of a workgroup. */
  invocations: limit(256),
});
export type DeviceLimits = Readonly<z.infer<typeof deviceLimitsSchema>>;

/** What a donor measured of itself before it was admitted. Times are of one layer, for a micro-batch of so many samples. */
export const profileSchema = z.object({
  layers: z
    .array(z.object({ samples: z.int().min(1).max(65_536), forwardSeconds: seconds, backwardSeconds: seconds }))
    .max(8)
    // Between two sizes a layer's time lies on a line.
    .refine((layers) => new Set(layers.map(({ samples }) => samples)).size === layers.length, {
      error: 'must have each size of micro-batch once',
    }),
  /** GPU memory that could really be had. */
  memoryBytes: memory,
  /** So much was tried, or time or slowness ended it: no reason to try again for less. Absent: unknown. */
  memoryTriedBytes: memory.optional(),
  /** Absent: unknown, and none is planned with. */
  deviceLimits: deviceLimitsSchema.optional(),
  /** What an element of state in main memory takes, in seconds: its sum, and its update; and its update on the GPU. Absent: not measured. */
  mainMemory: z
    .object({ sumSeconds: seconds, updateSeconds: seconds, onGpuSeconds: seconds.exactOptional() })
    .exactOptional(),
  /** Kernels whose results were compared with their references; 0: this GPU is known from an earlier visit. */
  checkedKernels: count,
  /** What was wrong with the adapter's matrix unit: its products run without it. Absent: nothing, or it has none. */
  wrongUnit: sentence.optional(),
});
export type Profile = z.infer<typeof profileSchema>;

/** How frames go from one donor to another: by a link of their own, or through the server's socket. */
const route = z.enum(['direct', 'relayed']);
export type Route = z.infer<typeof route>;

/** Why a pair has no direct way: the one that reports hides its address, has none, makes no more connections, saw every attempt fail or none answered; the other end said so first, or the server. */
const RELAY_REASONS = ['hidden', 'noAddress', 'noConnection', 'failed', 'noAnswer', 'otherEnd', 'server'] as const;
export type RelayReason = (typeof RELAY_REASONS)[number];

/** A rate measured over next to no time is cut to it. */
export const MOST_BYTES_PER_SECOND = 1e12;
export const rate = z.number().min(0).max(MOST_BYTES_PER_SECOND);

/** One way from the reporting donor, as it measured it; null: not measured yet. */
export const linkReportSchema = z.object({
  peer,
  route,
  roundTripMs: z.number().min(0).max(1e9).nullable(),
  bytesPerSecond: rate.nullable(),
  /** The other way, as long tensors arrived. */
  receivedBytesPerSecond: rate.optional(),
  /** What one connection has on its way at most, where that is what limits the rate. */
  windowBytes: z.int().min(1).max(1e9).optional(),
  /** Connections side by side, where there are several. */
  streams: z.int().min(2).max(MOST_STREAMS).optional(),
  why: z.enum(RELAY_REASONS).optional(),
});
export type LinkReport = z.infer<typeof linkReportSchema>;
/** What a donor measured of its ways to others, and of the line that they share (absent: not yet). */
export interface MeasuredLinks {
  readonly links: readonly LinkReport[];
  readonly uploadBytesPerSecond?: number;
  /** Absent: none. */
  readonly turnErrors?: readonly TurnError[];
}
export type LinkMeasurement = Pick<LinkReport, 'roundTripMs' | 'bytesPerSecond'>;
