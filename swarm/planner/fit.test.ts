import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { donors } from '../testing/randomPlan.ts';
import { equalSplit, type SplitOptions } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';

const parsed = modelFromConfig({
  model_type: 'gpt2',
  n_layer: 6,
  n_head: 2,
  n_embd: 32,
  n_positions: 32,
  vocab_size: 64,
});
if (!parsed.ok) throw new Error(parsed.reason);
const model = parsed.value;
const batch = { samples: 8, sequence: 32 };
const fitted = (count: number, caps: Readonly<Record<string, number>>, options: SplitOptions = {}) =>
  fittingSplit({
    model,
    batch,
    peers: donors(count),
    caps: new Map(Object.entries(caps) as [PeerId, number][]),
    options,
  });
const bytes = (plan: Plan, peer: string): number => predictedBytes(model, plan, peerId(peer), batch.sequence);
const layers = (plan: Plan): number[] => plan.stages.map(({ layers: [from, to] }) => to - from);

function planOf(result: ReturnType<typeof fitted>): Plan {
  if (!result.ok) throw new Error(result.reason);
  expect(problems(model, batch, result.value)).toEqual([]);
  return result.value;
}

test('[LI3] without caps, and with caps that hold, the plan is the equal split', () => {
  const equal = equalSplit(model, 8, donors(2));
  expect(planOf(fitted(2, {}))).toEqual(equal);
  expect(planOf(fitted(2, { d0: bytes(equal, 'd0'), d1: bytes(equal, 'd1') }))).toEqual(equal);
});

test('a donor that gives less gets fewer layers, or smaller micro-batches, and never more than it gives', () => {
  const equal = equalSplit(model, 8, donors(2));
  for (const peer of ['d0', 'd1'] as const) {
    const cap = Math.floor(bytes(equal, peer) * 0.75);
    const plan = planOf(fitted(2, { [peer]: cap }));
    expect(peers(plan)).toEqual(donors(2));
    expect(bytes(plan, peer)).toBeLessThanOrEqual(cap);
    expect(layers(plan)).toEqual(peer === 'd0' ? [2, 4] : [4, 2]);
  }
});

test('one donor alone gets smaller micro-batches, then 1F1B; what an option says stays', () => {
  const alone = equalSplit(model, 8, donors(1));
  const cap = Math.floor(bytes(alone, 'd0') * 0.8);
  const plan = planOf(fitted(1, { d0: cap }));
  expect(bytes(plan, 'd0')).toBeLessThanOrEqual(cap);
  const options: SplitOptions = { microBatches: 4, schedule: 'gpipe' };
  const kept = planOf(fitted(1, { d0: cap }, options));
  expect(kept).toMatchObject({ microBatches: { length: 4 }, schedule: 'gpipe' });
});

test('where nothing else helps, as few layers as will do are computed twice', () => {
  const options: SplitOptions = { microBatches: 4, schedule: 'gpipe' };
  const cap = Math.floor(bytes(equalSplit(model, 8, donors(1), options), 'd0') * 0.8);
  const plan = planOf(fitted(1, { d0: cap }, options));
  const [member] = plan.stages[0]?.members ?? [];
  const twice = member?.recompute ?? [];
  expect(twice.length).toBeGreaterThan(0);
  expect(bytes(plan, 'd0')).toBeLessThanOrEqual(cap);
  const recompute = twice.slice(0, -1);
  const stages = plan.stages.map((stage) => ({ ...stage, members: [{ ...stage.members[0], recompute }] }));
  expect(bytes({ ...plan, stages } as Plan, 'd0')).toBeGreaterThan(cap);
});

test('what does not fit is refused with the memory that is missing', () => {
  const refused = fitted(2, { d0: 1_048_576, d1: 100_000 });
  expect(refused).toMatchObject({
    ok: false,
    reason: expect.stringMatching(
      /does not fit these donors: about [\d.]+ \w+ of memory is missing\. donor 1 gives 98 KiB of/,
    ),
  });
});
