/**
 * How long a donor's work took, from the spans of its reports. At a share of the GPU's time it counts as what the donor
 * takes it to need alone, because that is what the donor spaces its work by, however long others stretched it. At full
 * speed nobody waits for one work before the next is handed in, and a browser may tell of several at once that they have
 * ended (Firefox on llvmpipe, where it computes a submit as it takes it): of the same work in a step each counts as their
 * mean. Of the same work the newest spans count together: the lower quartile at a share, the median at full speed.
 */
import { got, nearestRank, type PeerId, total } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type Plan, samplesById } from '../plan/plan.ts';
import { measuredSpans, type ReportedSpan } from '../timeline/measured.ts';
import { lengthSeconds } from '../timeline/timeline.ts';
import { type Batch, type PeerProfile, recomputedBy, type StageWork, withRatio, workSeconds } from './peerProfile.ts';

const SPANS_KEPT = 24;
/** The first spans of a plan are those of buffers that warm up. */
const LEAST_SPANS = 3;
/** A span that is so many times off the prediction says something about the machine, not about the work. */
const ODD = 30;

export interface Done extends StageWork {
  readonly seconds: number;
}

/** The forwards and backwards of a report, under the plan that it is of. */
export function workDone(plan: Plan, peer: PeerId, spans: readonly ReportedSpan[]): Done[] {
  const sizes = samplesById(plan);
  const found = measuredSpans(plan, peer, spans).flatMap((span): Spanned[] => {
    const { op, stage, microBatch } = span.action;
    const { aloneSeconds } = span;
    const seconds = aloneSeconds ?? lengthSeconds(span);
    const planned = plan.stages[stage];
    const samples = sizes.get(microBatch);
    // What gathers waits for others too: that says nothing of how fast this peer is.
    if (op === 'R' || !planned || planned.gathered || samples === undefined) return [];
    const [from, to] = planned.layers;
    const shape = { first: stage === 0, last: stage === plan.stages.length - 1, layers: to - from };
    const again = planned.members.find((member) => member.peer === peer)?.recompute ?? [];
    const work = { op, shape, ...(op === 'B' ? recomputedBy(again) : { recomputed: 0 }), samples };
    return [{ work, seconds, isAlone: aloneSeconds !== undefined }];
  });
  const means = meansOf(found);
  return found.flatMap(({ work, seconds: own, isAlone }) => {
    const seconds = isAlone ? own : got(means, kindOf(work));
    return seconds > 0 ? [{ ...work, seconds }] : [];
  });
}

function meansOf(found: readonly Spanned[]): ReadonlyMap<string, number> {
  const all = new Map<string, { sum: number; count: number }>();
  for (const { work, seconds, isAlone } of found) {
    if (isAlone) continue;
    const { sum, count } = all.get(kindOf(work)) ?? { sum: 0, count: 0 };
    all.set(kindOf(work), { sum: sum + seconds, count: count + 1 });
  }
  return new Map(Array.from(all, ([kind, { sum, count }]) => [kind, sum / count]));
}

interface Spanned {
  readonly work: StageWork;
  readonly seconds: number;
  readonly isAlone: boolean;
}

const kindOf = ({ op, shape, recomputed, isAhead, samples }: StageWork): string =>
  `${op} ${samples} ${shape.layers} ${shape.first} ${shape.last} ${recomputed} ${isAhead}`;

/** The newest spans of one donor, by what was done. */
export type NewestSpans = readonly { readonly work: StageWork; readonly seconds: readonly number[] }[];

export function withSpans(newest: NewestSpans, done: readonly Done[]): NewestSpans {
  const all = new Map(newest.map((kind) => [kindOf(kind.work), kind]));
  for (const { seconds, ...work } of done) {
    const kind = kindOf(work);
    all.set(kind, { work, seconds: [...(all.get(kind)?.seconds ?? []), seconds].slice(-SPANS_KEPT) });
  }
  return [...all.values()];
}

/** Typical seconds of each kind of work that was done often enough. */
export const typicalWork = (newest: NewestSpans, isThrottled: boolean): Done[] =>
  newest.flatMap(({ work, seconds }) => {
    if (seconds.length < LEAST_SPANS) return [];
    return [{ ...work, seconds: nearestRank(seconds, isThrottled ? 0.25 : 0.5) ?? 0 }];
  });

/** The profile as these times correct it: the head runs in the last stage's forward, its own share taken off. */
export function corrected(model: Model, batch: Batch, profile: PeerProfile, typical: readonly Done[]): PeerProfile {
  const admission = workSeconds(model, batch, { ...profile, ratios: [] });
  let found = profile;
  const ratios = new Map<string, { readonly work: Done; readonly ratios: number[] }>();
  for (const work of typical) {
    const ratio = work.seconds / admission(work);
    if (!(ratio > 1 / ODD && ratio < ODD)) continue;
    const key = `${work.op} ${work.samples}`;
    const same = ratios.get(key) ?? { work, ratios: [] };
    same.ratios.push(ratio);
    ratios.set(key, same);
  }
  for (const { work, ratios: same } of ratios.values()) {
    const mean = total(same) / same.length;
    found = withRatio(found, work.op, work.samples, mean);
  }
  return found;
}
