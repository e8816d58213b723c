/**
 * How each link of a plan writes its stream, where the run leaves that to the plan (`wire: "auto"`): as exact as can be
 * without longer steps. A plan is sought for with the tightest encoding everywhere. Then, from the links on that carry the
 * stream fastest, as many as can be get float32, of the others as many as can be f16, then int8, and the rest stay as they
 * are: a step may take so much longer for it, by the same prediction that the plan was chosen by.
 */
import { at, countIn, got, type PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { PlanLink } from '../plan/planLink.ts';
import { tightestWire, WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';

/** A step with more exact streams may take so many times what it takes with the tightest ones. */
const AS_FAST = 1.02;

interface Direction {
  readonly from: PeerId;
  readonly to: PeerId;
}
const keyOf = ({ from, to }: Direction): string => JSON.stringify([from, to]);

interface StreamLink extends Direction {
  /** Of a step. */
  readonly samples: number;
}

/** Over which links a plan's activations and gradients go, each way apart. */
export function streamLinks({ stages, microBatches }: Plan): StreamLink[] {
  const found = new Map<string, StreamLink>();
  const add = (from: PeerId, to: PeerId, samples: number): void => {
    const key = keyOf({ from, to });
    found.set(key, { from, to, samples: samples + (found.get(key)?.samples ?? 0) });
  };
  const owners = stages.map(
    ({ members }) => new Map(members.flatMap(({ peer, microBatches: ids }) => ids.map((id) => [id, peer] as const))),
  );
  for (const [index, after] of owners.slice(1).entries())
    for (const { id, samples } of microBatches) {
      const [one, other] = [got(at(owners, index), id), got(after, id)];
      if (one === other) continue;
      add(one, other, countIn(samples));
      add(other, one, countIn(samples));
    }
  return [...found.values()];
}

/** With the encoding that `wireOf` says for each link of the stream. */
export function withWires(plan: Plan, wireOf: (link: StreamLink) => WireEncoding): Plan {
  const stream = streamLinks(plan);
  if (stream.length === 0) return plan;
  const streams = new Map((plan.links ?? []).map((link) => [keyOf(link), link.streams]));
  const links = stream.map((link): PlanLink => {
    const { from, to } = link;
    return { from, to, wire: wireOf(link), streams: streams.get(keyOf(link)) ?? 1 };
  });
  const streaming = new Set(stream.map(keyOf));
  return { ...plan, links: [...links, ...(plan.links ?? []).filter((link) => !streaming.has(keyOf(link)))] };
}

export const withTightestWires = (plan: Plan): Plan => withWires(plan, () => tightestWire('auto'));

interface WireChoice {
  /** That a step may take; absent: only the tightest encodings' bound it. */
  readonly longestSeconds?: number;
  /** Bytes a second that a link's stream may take. */
  readonly rate: (from: PeerId, to: PeerId) => number;
  readonly stepSeconds: (plan: Plan) => number;
  /** Whether its memory holds its part whatever the encodings of its links are. */
  readonly isRoomy: (peer: PeerId) => boolean;
}

export function withChosenWires(
  plan: Plan,
  { longestSeconds = Infinity, rate, stepSeconds, isRoomy }: WireChoice,
): Plan {
  const tightest = tightestWire('auto');
  const order = streamLinks(plan)
    .map((link) => ({ ...link, seconds: link.samples / rate(link.from, link.to) }))
    .toSorted((a, b) => a.seconds - b.seconds);
  const place = new Map(order.map((link, index) => [keyOf(link), index]));
  const written = (wires: readonly WireEncoding[]): Plan =>
    withWires(plan, (link) => at(wires, got(place, keyOf(link))));
  let chosen = order.map((): WireEncoding => tightest);
  if (order.length === 0) return plan;
  const least = stepSeconds(written(chosen));
  const limit = Math.max(least, Math.min(AS_FAST * least, longestSeconds));
  const mayBe = ({ from, to }: StreamLink): boolean => isRoomy(from) && isRoomy(to);
  let done = 0;
  for (const encoding of WIRE_ENCODINGS) {
    if (encoding === tightest) break;
    const upTo = (count: number): WireEncoding[] =>
      chosen.map((own, index) => (index >= done && index < count && mayBe(at(order, index)) ? encoding : own));
    let [from, to] = [done, order.length];
    while (from < to) {
      const middle = Math.ceil((from + to) / 2);
      if (stepSeconds(written(upTo(middle))) <= limit) from = middle;
      else to = middle - 1;
    }
    chosen = upTo(from);
    done = from;
  }
  return written(chosen);
}

/** What the lines of some peers carry at most; who is not in it has no cap. */
export type LineCaps = ReadonlyMap<PeerId, { readonly upload: number | null; readonly download: number | null }>;

/** Of a step's stream over one link. */
const CAPPED_SECONDS = 1;

/**
 * By the caps of the lines alone, which a peer's links share evenly: of each link the most exact encoding with which a
 * step's stream takes a second at most, or the tightest one.
 */
export function withCappedWires(plan: Plan, caps: LineCaps, sampleBytes: (wire: WireEncoding) => number): Plan {
  const stream = streamLinks(plan);
  const shares = (end: 'from' | 'to', peer: PeerId): number => stream.filter((link) => link[end] === peer).length;
  return withWires(plan, ({ from, to, samples }) => {
    const upload = (caps.get(from)?.upload ?? Infinity) / shares('from', from);
    const download = (caps.get(to)?.download ?? Infinity) / shares('to', to);
    const seconds = (wire: WireEncoding): number => (samples * sampleBytes(wire)) / Math.min(upload, download);
    return WIRE_ENCODINGS.find((wire) => seconds(wire) <= CAPPED_SECONDS) ?? tightestWire('auto');
  });
}
