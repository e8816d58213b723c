/**
 * The simulator's rules once more, in another way and without care for speed, to be compared with. Fixed orders: start
 * times are lower bounds that are raised, list by list and link by link, until nothing moves. Orders that follow
 * messages: a clock of whole ticks, and at each tick every peer is looked at. Lists are written from the rules' text.
 */
import { pushToKey, totalOf } from '../base.ts';
import type { SimulateProblem } from '../simulate/problem.ts';

interface Job {
  readonly name: string;
  readonly peer: number;
  readonly seconds: number;
  /** By name: what it needs, and what a message of so many bytes brings it. */
  readonly local: readonly string[];
  readonly message: { readonly from: string; readonly bytes: number } | null;
}

/** End of each action, by its text. Any schedule with a fixed order, without jitter. */
export function fixedOrderEnds(problem: SimulateProblem): Map<string, number> {
  const jobs = jobsOf(problem, listsOf(problem));
  const all = jobs.flat();
  const peerOf = new Map(all.map(({ name, peer }) => [name, peer]));
  const receivers = new Map<string, Job[]>();
  for (const job of all) if (job.message) pushToKey(receivers, job.message.from, job);
  const ends = new Map(all.map(({ name }) => [name, 0]));
  const end = (name: string): number => ends.get(name) ?? 0;
  for (let moved = true; moved; ) {
    moved = false;
    // What a peer sends in one direction is queued in the order in which it is made: its list's.
    const arrivals = new Map<string, number>();
    const free = new Map<string, number>();
    for (const { name, peer } of all)
      for (const { name: to, message } of receivers.get(name) ?? []) {
        const receiver = peerOf.get(to) ?? 0;
        const { seconds, latency } = hop(problem, peer, receiver, message?.bytes ?? 0);
        const sent = Math.max(end(name), free.get(`${peer}>${receiver}`) ?? 0) + seconds;
        free.set(`${peer}>${receiver}`, sent);
        arrivals.set(to, sent + latency);
      }
    for (const list of jobs) {
      let time = 0;
      for (const { name, seconds, local } of list) {
        time = Math.max(time, arrivals.get(name) ?? 0, ...local.map(end)) + seconds;
        if (time > end(name)) {
          ends.set(name, time);
          moved = true;
        }
      }
    }
  }
  return ends;
}

function hop({ link, stages }: SimulateProblem, from: number, to: number, bytes: number) {
  const p = stages.length;
  const index = from + 1 === to || to + 1 === from ? Math.min(from, to) : p - 1;
  const entry = 'length' in link ? link[index] : link;
  if (!entry) throw new Error(`no link ${index}`);
  const { latencySeconds: latency, bytesPerSecond, windowBytes, streams } = entry;
  const caps = [bytesPerSecond ?? Infinity];
  if (windowBytes !== null && latency > 0) caps.push((streams * windowBytes) / 2 / latency);
  return { seconds: bytes / Math.min(...caps), latency };
}

type Item = readonly [op: 'F' | 'B', stage: number, microBatch: number];

function jobsOf(problem: SimulateProblem, lists: readonly (readonly Item[])[]): Job[][] {
  const { stages, schedule, chunks, activationBytes, gradientBytes } = problem;
  const split = schedule === 'interleaved' || schedule === 'breadth-first' ? chunks : 1;
  const last = stages.length * split - 1;
  const peerOf = new Map(lists.flatMap((list, peer) => list.map((item) => [item.join(), peer] as const)));
  return lists.map((list, peer) =>
    list.map(([op, stage, id]): Job => {
      const size = stages[stage % stages.length];
      const from: Item | null =
        op === 'F' ? (stage > 0 ? ['F', stage - 1, id] : null) : stage < last ? ['B', stage + 1, id] : null;
      const near = from !== null && peerOf.get(from.join()) === peer;
      return {
        name: nameOf(op, stage, id),
        peer,
        seconds: ((op === 'F' ? size?.forwardSeconds : size?.backwardSeconds) ?? 0) / split,
        local: [...(op === 'B' ? [nameOf('F', stage, id)] : []), ...(from && near ? [nameOf(...from)] : [])],
        message: from && !near ? { from: nameOf(...from), bytes: op === 'F' ? activationBytes : gradientBytes } : null,
      };
    }),
  );
}

const nameOf = (op: string, stage: number, id: number): string => `${stage}${op}${id}`;
const upTo = (count: number): number[] => [...Array(count).keys()];

/** Each peer's list, from the words of SC10 to SC16. */
function listsOf({ schedule, stages, microBatches: m, chunks: v, pairs: f, warmup }: SimulateProblem): Item[][] {
  const p = stages.length;
  switch (schedule) {
    case 'gpipe':
      return upTo(p).map((s) => [...upTo(m).map((i): Item => ['F', s, i]), ...upTo(m).map((i): Item => ['B', s, i])]);
    case '1f1b':
      return upTo(p).map((s) => {
        const ahead = Math.min(m, warmup === 'overlap' ? 2 * (p - s) - 1 : p - s);
        const list = upTo(ahead).map((i): Item => ['F', s, i]);
        for (let i = 0; i < m; i++) {
          list.push(['B', s, i]);
          if (ahead + i < m) list.push(['F', s, ahead + i]);
        }
        return list;
      });
    case 'interleaved':
      return upTo(p).map((r) => {
        const forward = (k: number): Item => {
          const [group, rest] = [Math.floor(k / (p * v)), k % (p * v)];
          return ['F', Math.floor(rest / p) * p + r, group * p + (rest % p)];
        };
        const backward = (k: number): Item => {
          const [, stage, id] = forward(k);
          return ['B', (v - 1 - Math.floor(stage / p)) * p + r, id];
        };
        const ahead = Math.min(m * v, 2 * (p - r - 1) + (v - 1) * p);
        const list = upTo(ahead).map(forward);
        for (let k = 0; k < m * v; k++) {
          if (ahead + k < m * v) list.push(forward(ahead + k));
          list.push(backward(k));
        }
        return list;
      });
    case 'breadth-first':
      return upTo(p).map((r) => [
        ...upTo(v).flatMap((c) => upTo(m).map((i): Item => ['F', c * p + r, i])),
        ...upTo(v).flatMap((c) => upTo(m).map((i): Item => ['B', (v - 1 - c) * p + r, i])),
      ]);
    case 'chimera': {
      const slotted = upTo(p).map((): { slot: number; item: Item }[] => []);
      for (const beta of upTo(m / p))
        for (const q of upTo(2 * f))
          for (const j of upTo(p / (2 * f)))
            for (const s of upTo(p)) {
              const start = (Math.floor(q / 2) * p) / f;
              const peer = (start + (q % 2 === 0 ? s : p - 1 - s)) % p;
              const id = beta * p + (q * p) / (2 * f) + j;
              const base = 2 * j + 2 * p * beta;
              slotted[peer]?.push({ slot: base + s, item: ['F', s, id] });
              slotted[peer]?.push({ slot: base + p + (p - 1 - s), item: ['B', s, id] });
            }
      return slotted.map((list) => list.sort((a, b) => a.slot - b.slot).map(({ item }) => item));
    }
    default:
      throw new Error(`${schedule} has no fixed order`);
  }
}

/** End of each action of `eager` or `varuna`: whole seconds, links without a limit, no jitter. */
export function messageDrivenEnds(problem: SimulateProblem): Map<string, number> {
  const { stages, microBatches: m, schedule, warmup, maxInFlight } = problem;
  const p = stages.length;
  const recomputes = (s: number): boolean => schedule === 'varuna' && s < p - 1;
  const [starts, ends] = [new Map<string, number>(), new Map<string, number>()];
  const busyUntil = upTo(p).map(() => 0);
  const total = totalOf(upTo(p), (s) => m * (recomputes(s) ? 3 : 2));
  const arrived = (op: 'F' | 'B', s: number, i: number, now: number): boolean => {
    const from = op === 'F' ? s - 1 : s + 1;
    if (from < 0 || from === p) return op === 'F' || (ends.get(nameOf('F', s, i)) ?? Infinity) <= now;
    const made = ends.get(nameOf(op, from, i)) ?? Infinity;
    return made + hop(problem, from, s, 0).latency <= now;
  };
  const pick = (s: number, now: number): readonly ['F' | 'R' | 'B', number] | null => {
    const begun = (op: string, i: number, stage = s) => (starts.get(nameOf(op, stage, i)) ?? Infinity) <= now;
    const over = (op: string, i: number) => (ends.get(nameOf(op, s, i)) ?? Infinity) <= now;
    const kept = (i: number) => !recomputes(s) || over('R', i);
    const backward = upTo(m).find((i) => !begun('B', i) && over('F', i) && kept(i) && arrived('B', s, i, now));
    if (backward !== undefined) return ['B', backward];
    const waiting = upTo(m).some((i) => begun('R', i) && !begun('B', i));
    const again = upTo(m).find((i) => recomputes(s) && !begun('R', i) && begun('B', i, s + 1));
    if (again !== undefined && !waiting) return ['R', again];
    const forward = upTo(m).find((i) => !begun('F', i) && arrived('F', s, i, now));
    if (forward === undefined) return null;
    const inFlight = upTo(m).filter((i) => begun('F', i) && !over('B', i)).length;
    const bound = Math.min(m, warmup === 'overlap' ? 2 * (p - s) - 1 : p - s);
    const next = upTo(m).find((i) => begun('F', i) && !begun('B', i));
    const late = next === undefined || !arrived('B', s, next, now);
    const past = schedule === 'varuna' && late && inFlight < (maxInFlight ?? Infinity);
    return inFlight < bound || past ? ['F', forward] : null;
  };
  for (let now = 0; ends.size < total; now++) {
    if (now > 10_000) throw new Error('it never ends');
    for (const s of upTo(p).reverse()) {
      if ((busyUntil[s] ?? 0) > now) continue;
      const picked = pick(s, now);
      if (picked === null) continue;
      const [op, i] = picked;
      const seconds = (op === 'B' ? stages[s]?.backwardSeconds : stages[s]?.forwardSeconds) ?? 0;
      starts.set(nameOf(op, s, i), now);
      ends.set(nameOf(op, s, i), now + seconds);
      busyUntil[s] = now + seconds;
    }
  }
  return ends;
}
