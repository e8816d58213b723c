/**
 * What is known of one donor's speed: what its admission measured of a layer, and how the spans of the run compare with
 * that. A span is measured in what the admission would have predicted for it, so that numbers of any stage, micro-batch
 * size and plan correct the same two curves, and mean something to a donor that comes back another day. Times are those
 * of running alone at full speed: the donor's share of its GPU's time is applied when a cluster is made.
 */
import { z } from 'zod';
import { arrayOf, invariant, peerId } from '../base.ts';
import { memory } from '../fields.ts';
import { type Profile, profileSchema, rate } from '../messages/profile.ts';
import type { Adapter } from '../model/adapter.ts';
import type { Model } from '../model/model.ts';
import type { Cluster, ClusterPeer } from '../planner/cluster.ts';
import { clusterCosts, type StageShape } from '../planner/clusterCosts.ts';
import type { Compute } from '../precision.ts';
import type { Islands } from '../run/runFile.ts';
import { againAhead, againInBackward } from '../schedule/recompute.ts';
import type { CodedState, RunWire } from '../wire.ts';
import { measuredRate } from './lines.ts';

/** Entries of a table of times; beyond them their last slope goes on. */
const MOST_ENTRIES = 1_024;
/** Past the measured sizes a sample costs at least this part of the mean one: two short times differ by chance. */
const LEAST_SLOPE = 0.25;

const ratioSchema = z.object({
  op: z.enum(['F', 'B']),
  samples: z.int().min(1).max(65_536),
  ratio: z.number().positive(),
});
export const peerProfileSchema = z.object({
  layers: profileSchema.shape.layers,
  memoryBytes: profileSchema.shape.memoryBytes,
  memoryTriedBytes: profileSchema.shape.memoryTriedBytes,
  /** The largest buffer that its GPU keeps, and what its kernels bind of one at once; absent: unknown. */
  bufferBytes: memory.optional(),
  bindingBytes: memory.optional(),
  mainMemory: profileSchema.shape.mainMemory,
  /** Measured over predicted, by what was done; empty before the first step. */
  ratios: z.array(ratioSchema).max(256),
  /** Of its line, as its links showed it; absent: they did not. */
  uploadBytesPerSecond: rate.optional(),
  downloadBytesPerSecond: rate.optional(),
});
export type PeerProfile = Readonly<z.infer<typeof peerProfileSchema>>;
type Op = PeerProfile['ratios'][number]['op'];

export const admittedProfile = ({
  layers,
  memoryBytes,
  memoryTriedBytes,
  mainMemory,
  deviceLimits,
}: Profile): PeerProfile => ({
  layers: layers.toSorted((a, b) => a.samples - b.samples),
  memoryBytes,
  memoryTriedBytes,
  ...(deviceLimits && { bufferBytes: deviceLimits.bufferBytes, bindingBytes: deviceLimits.bindingBytes }),
  ...(mainMemory && { mainMemory }),
  ratios: [],
});

/**
 * A donor that came back: it was measured anew, and its spans' ratios of the last visit hold on, as they compare with the
 * measurement of the same moment. Its line is known until its links say otherwise.
 */
export function returnedProfile(now: Profile, last: PeerProfile | null): PeerProfile {
  const [upload, download] = [measuredRate(last?.uploadBytesPerSecond), measuredRate(last?.downloadBytesPerSecond)];
  return {
    ...admittedProfile(now),
    ratios: last?.ratios ?? [],
    ...(upload !== null && { uploadBytesPerSecond: upload }),
    ...(download !== null && { downloadBytesPerSecond: download }),
  };
}

type Times = 'forwardSeconds' | 'backwardSeconds';
const timesOf = (op: Op): Times => (op === 'F' ? 'forwardSeconds' : 'backwardSeconds');

/** A layer's time, as the admission measured it: between sizes and past them on a line. */
function admitted({ layers }: PeerProfile, op: Op, samples: number): number {
  const field = timesOf(op);
  const [first, second] = layers;
  invariant(first, 'a profile with times has a size');
  if (!second) return (first[field] * samples) / first.samples;
  const above = layers.findIndex((entry) => entry.samples >= samples);
  const index = above === -1 ? layers.length - 1 : Math.max(1, above);
  const [a, b] = [layers[index - 1] ?? first, layers[index] ?? second];
  const slope = (b[field] - a[field]) / (b.samples - a.samples);
  const beyond = Math.max(slope, (LEAST_SLOPE * b[field]) / b.samples);
  return samples > b.samples
    ? b[field] + beyond * (samples - b.samples)
    : Math.max(0, a[field] + slope * (samples - a.samples));
}

/** Of the size nearest to this one, measured in factors. */
function ratioAt({ ratios }: PeerProfile, op: Op, samples: number): number {
  let nearest: { readonly ratio: number; readonly far: number } | null = null;
  for (const known of ratios) {
    if (known.op !== op) continue;
    const far = Math.abs(Math.log(known.samples / samples));
    if (nearest === null || far < nearest.far) nearest = { ratio: known.ratio, far };
  }
  return nearest?.ratio ?? 1;
}

/** Alone and at full speed. Not even one layer fits a donor that has no times: it is in no cluster. */
export const hasTimes = ({ layers }: PeerProfile): boolean => layers.length > 0;

/** The donor as the planner sees it. `speed`: its share of the GPU's time. */
export function measuredTimes(profile: PeerProfile, speed: number): NonNullable<ClusterPeer['measured']> {
  const known = [...profile.layers, ...profile.ratios].map(({ samples }) => samples);
  // One entry past the last known size: the slope between two entries with one ratio goes on.
  const entries = Math.min(MOST_ENTRIES, Math.max(...known) + 1);
  const table = (op: Op): number[] =>
    arrayOf(entries, (index) => {
      const samples = index + 1;
      return (admitted(profile, op, samples) * ratioAt(profile, op, samples)) / speed;
    });
  return { forwardSecondsPerLayer: table('F'), backwardSecondsPerLayer: table('B') };
}

/** What a donor did: one action of a stage on one micro-batch. */
export interface StageWork {
  readonly op: Op;
  readonly shape: StageShape;
  /** Layers that its backward computes again. */
  readonly recomputed: number;
  /** One more was computed again ahead of it, but for what goes by runs of rows. */
  readonly isAhead?: true;
  readonly samples: number;
}

export interface Batch {
  readonly samples: number;
  readonly sequence: number;
  /** How the stream goes from peer to peer; absent: f32. */
  readonly wire?: RunWire;
  /** What the run asks for; absent: f32. */
  readonly compute?: Compute;
  /** How gradient sums and values travel; absent: as floats. */
  readonly stateWire?: CodedState;
  /** Absent: one synchronous swarm. */
  readonly islands?: Islands;
  /** Absent: AdamW. */
  readonly optimizer?: 'muon';
  /** What alone is trained; absent: the whole model. */
  readonly adapter?: Adapter;
  /** Only the operator's own donors have the first and last stage; absent: anyone may. */
  readonly ends?: 'own';
}

/** What a backward has to do with the layers that its stage computes again. */
export const recomputedBy = (again: readonly number[]): Pick<StageWork, 'recomputed' | 'isAhead'> => ({
  recomputed: againInBackward(again),
  ...(againAhead(again) > 0 && { isAhead: true }),
});

/** A stage's work, or `recomputed` layers computed again ahead of a backward. */
type Work = Omit<StageWork, 'op'> & { readonly op: Op | 'R' };

/** Seconds that this profile predicts for a piece of work, alone and at full speed. */
export function workSeconds(model: Model, batch: Batch, profile: PeerProfile): (work: Work) => number {
  const cluster: Cluster = {
    peers: [
      {
        ...{ id: 'this', memoryBytes: 0, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
        measured: measuredTimes(profile, 1),
      },
    ],
    links: { default: {}, regions: [], pairs: [] },
  };
  const costs = clusterCosts({ model, batch, cluster });
  const peer = costs.peers.find(({ id }) => id === peerId('this'));
  invariant(peer, 'a cluster of one peer has one');
  return ({ op, shape, recomputed, isAhead, samples }) => {
    if (op === 'F') return costs.forwardSeconds(peer, shape, samples);
    const [layer, ahead] = [costs.layerSeconds(peer, samples), costs.aheadShare(samples)];
    if (op === 'R') return recomputed * layer * ahead;
    return costs.backwardSeconds(peer, shape, samples) + (recomputed + (isAhead ? 1 - ahead : 0)) * layer;
  };
}

/** The profile with what was measured in place of what was known of the same work. `ratio`: measured over admitted. */
export function withRatio(profile: PeerProfile, op: Op, samples: number, ratio: number): PeerProfile {
  const others = profile.ratios.filter((known) => known.op !== op || known.samples !== samples);
  return { ...profile, ratios: [...others, { op, samples, ratio }] };
}
