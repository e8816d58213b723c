import { expect, test } from 'vitest';
import { invariant, type PeerId, peerId } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import type { LinkReport, Profile } from '../messages/profile.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { reasonText } from '../planner/reason.ts';
import { CONFIG, found, PlannedRun, profile, samplesOf } from '../testing/plannedRun.ts';
import { knownDonor, type PlanningConfig, profileNow, searchProblem } from './knownDonors.ts';
import { beginReplanning, replannerDeadline } from './replanner.ts';

const { batch } = CONFIG;
const model = acceptedModel(CONFIG);
const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];

test('a donor that computes a layer four times as fast gets more of the work', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.04));
  run.joins(B, profile(0.01));
  expect(problems(model, batch, run.plan as Plan)).toEqual([]);
  expect(samplesOf(run.plan, B)).toBeGreaterThan(2 * samplesOf(run.plan, A));
  expect(run.state.appraisal?.predictedSeconds).toBeLessThan(16 * 4 * 0.03);
});

test('a share of the GPU time makes a donor slower by as much, and changes the plan when it is changed', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01), { ...NO_LIMITS, speed: 0.25 });
  run.joins(B, profile(0.01));
  expect(samplesOf(run.plan, B)).toBeGreaterThan(2 * samplesOf(run.plan, A));
  const before = samplesOf(run.plan, A);
  run.said(A, { type: 'limits', limits: NO_LIMITS });
  run.settle();
  expect(samplesOf(run.plan, A)).toBeGreaterThan(before);
});

test('a slow donor with memory computes nothing and keeps the state that the fast one has no room for', () => {
  const run = new PlannedRun();
  run.joins(B, profile(0.5));
  // Its values, gradients and one sample's activations fit, its moments do not.
  run.joins(A, profile(0.005), { ...NO_LIMITS, memoryBytes: 5_600_000 });
  expect(problems(model, batch, run.plan as Plan)).toEqual([]);
  expect([samplesOf(run.plan, A), samplesOf(run.plan, B)]).toEqual([batch.samples * model.layers, 0]);
  const primaries = run.plan?.state.flatMap(({ shards }) => shards.map(({ peer }) => peer));
  expect(new Set(primaries)).toEqual(new Set([A, B]));
  expect(run.state.appraisal?.reasons.map(reasonText).join(' ')).toMatch(
    /b: computes nothing.*keeps [\d,]+ elements of the state for which the others have no room/,
  );
  // The plan in force is what the next search begins with: it is found again.
  const plan = run.plan;
  run.said(B, { type: 'limits', limits: NO_LIMITS });
  run.settle();
  expect(run.plan).toBe(plan);
});

test('a newcomer who does not pay for the change is told that the plan stays', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.0001));
  const plan = run.plan;
  run.joins(B, profile(0.5));
  expect(run.plan).toBe(plan);
  expect(run.proposals.at(-1)).toEqual({ answer: 'stays' });
  expect(run.state.appraisal?.verdict).toMatch(/b joins: the plan stays/);
});

test('newcomers are told their number in the queue at once, however long the search takes', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.0001));
  expect(run.queue).toEqual([]);
  run.doesSearch = false;
  run.joins(B, profile(0.5));
  run.joins(C, profile(0.5));
  expect(run.queue).toEqual([
    [B, 1],
    [C, 2],
  ]);
});

test('what a step takes beside what is predicted makes a gain smaller', () => {
  for (const stepSeconds of [0, 100]) {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    run.stepSeconds = stepSeconds;
    for (let step = 0; step < 6; step++) run.step(step, () => 0.01);
    run.joins(B, profile(0.01));
    expect(peers(run.plan as Plan)).toHaveLength(stepSeconds === 0 ? 2 : 1);
  }
});

test('ten steps of spans more than a fifth off the profile are a drift; nine are none', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01));
  run.joins(B, profile(0.01));
  const judged = run.proposals.length;
  const slow = (peer: PeerId): number => (peer === A ? 0.05 : 0.01);
  // The head is in no layer's time: what is measured is held against what the same spans were before.
  for (let step = 0; step < 12; step++) run.step(step, () => 0.01);
  run.settle();
  const settled = run.proposals.length;
  const before = samplesOf(run.plan, A);
  for (let step = 12; step < 21; step++) run.step(step, slow);
  run.settle();
  expect(run.proposals.length).toBe(settled);
  for (let step = 21; step < 60; step++) {
    run.step(step, slow);
    run.settle();
  }
  expect(run.proposals.length).toBeGreaterThan(settled);
  expect(samplesOf(run.plan, A)).toBeLessThan(before);
  expect(judged).toBeGreaterThan(0);
  const kept = run.state.donors.find(({ peer }) => peer === A);
  expect(kept && profileNow(CONFIG, kept).ratios.find(({ op }) => op === 'B')?.ratio).toBeGreaterThan(3);
});

test('[AP4] links are taken for good until they are measured; slow ones, at the tenth step, leave a donor out', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.002));
  run.joins(B, profile(0.002));
  expect(peers(run.plan as Plan)).toHaveLength(2);
  const slow = (peer: PeerId): LinkReport => ({ peer, route: 'relayed', roundTripMs: 900, bytesPerSecond: 20_000 });
  for (let step = 0; step < 10; step++) {
    run.settle();
    expect(peers(run.plan as Plan)).toHaveLength(2);
    run.step(step, () => 0.002, [slow(A), slow(B)]);
  }
  run.settle();
  expect(peers(run.plan as Plan)).toHaveLength(1);
});

test('a donor that is remembered starts from its last numbers, and they are kept when it goes', () => {
  const first = new PlannedRun();
  first.joins(A, profile(0.01), NO_LIMITS, 'key of a');
  first.joins(B, profile(0.01));
  for (let step = 0; step < 6; step++) first.step(step, (peer) => (peer === A ? 0.05 : 0.01));
  first.tell({ type: 'donorGone', peer: A });
  expect([...first.saved.keys()]).toEqual(['key of a']);
  const again = new PlannedRun(first.saved);
  again.joins(C, profile(0.01), NO_LIMITS, 'key of a');
  again.joins(B, profile(0.01));
  expect(samplesOf(again.plan, B)).toBeGreaterThan(2 * samplesOf(again.plan, C));
});

const NOTHING: Profile = { layers: [], memoryBytes: 1e9, checkedKernels: 0 };

test('a donor that measured nothing is left out beside one that did', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01));
  run.joins(B, NOTHING);
  run.want('now');
  run.settle();
  expect(peers(run.plan as Plan)).toEqual([A]);
});

test('donors of whom nobody measured anything are taken for equals', () => {
  const run = new PlannedRun();
  run.doesSearch = false;
  run.joins(A, NOTHING);
  run.joins(B, NOTHING);
  run.plan = null;
  run.want('now');
  expect(run.plan).toMatchObject({ stages: [{}, {}] });
  expect(run.searches).toEqual([]);
  expect(run.state.appraisal?.predictedSeconds).toBeNull();
});

test('each donor is planned with as it computes', () => {
  const config: PlanningConfig = { ...CONFIG, batch: { ...batch, compute: 'f16' } };
  const admitted = { limits: NO_LIMITS, profile: profile(0.01), rememberedAs: null, remembered: null };
  const donors = [A, B].map((peer) =>
    knownDonor(config, { ...admitted, peer, address: peer, hasHalves: peer === A, isOwn: false }),
  );
  expect(searchProblem(config, donors, [A, B]).computes).toEqual({ a: 'f16', b: 'f32' });
});

test('each donor is planned with as fast as it updates in main memory, within bounds', () => {
  const admitted = { limits: NO_LIMITS, rememberedAs: null, remembered: null, hasHalves: false, isOwn: false };
  const words = { sumSeconds: 4e-9, updateSeconds: 9e-9 };
  const donors = [A, B, C].map((peer) => {
    const mainMemory = peer === A ? words : { sumSeconds: 0, updateSeconds: 3_000 };
    const own = peer === C ? profile(0.01) : { ...profile(0.01), mainMemory };
    return knownDonor(CONFIG, { ...admitted, peer, address: peer, profile: own });
  });
  expect(searchProblem(CONFIG, donors, [A, B, C]).mainMemory).toEqual({
    a: words,
    b: { sumSeconds: 10e-9, updateSeconds: 0.2e-6 },
  });
  expect(donors.map((donor) => donor.profile.mainMemory?.sumSeconds)).toEqual([4e-9, 0, undefined]);
});

test('the reasons and the prediction are recorded with every plan', () => {
  const run = new PlannedRun();
  run.joins(C, profile(0.01));
  const [record] = run.records;
  expect(record).toMatchObject({ epoch: 1, predictedSeconds: expect.any(Number) });
  expect(record?.reasons.map(reasonText).join()).toContain('c: stage 1, layers 1–4, every sample');
  expect(run.state.appraisal?.reasons).toEqual(record?.reasons);
});

test('a donor whose measurements swing for ever is looked at less and less', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01));
  run.joins(B, profile(0.01));
  run.stepSeconds = 0.5;
  const looks: number[] = [];
  for (let step = 0; step < 2_000; step++) {
    const before = run.proposals.length;
    run.step(step, (peer) => (peer === A && step % 60 < 30 ? 0.05 : 0.01));
    run.nowMs += 1_000;
    run.settle();
    if (run.proposals.length > before) looks.push(step);
  }
  expect(looks.length).toBeGreaterThan(2);
  expect(looks.length).toBeLessThan(16);
  expect(looks.filter((step) => step >= 1_000).length).toBeLessThan(4);
});

test('an admission that says nothing takes any time does not keep all the work', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0));
  run.joins(B, profile(0.01));
  expect(samplesOf(run.plan, A)).toBeGreaterThan(samplesOf(run.plan, B));
  for (let step = 0; step < 60; step++) {
    run.step(step, () => 0.01);
    run.settle();
  }
  expect(samplesOf(run.plan, B)).toBeGreaterThan(0);
  expect(run.state.appraisal?.predictedSeconds).toBeGreaterThan(0.1);
});

test('links that no step uses are measured now and then, and change the plan once both ends have told of them', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.0008));
  run.joins(B, profile(0.0008), { ...NO_LIMITS, uploadBytesPerSecond: 100_000 });
  run.joins(C, profile(0.0008));
  expect(peers(run.plan as Plan)).toEqual([A]); // two would wait for what their link is taken for
  run.step(0, () => 0.0008);
  expect(run.probes.map((pair) => pair.toSorted())).toEqual([
    [A, C],
    [A, C],
  ]); // B's cap is for the run
  const told = (from: PeerId, peer: PeerId) =>
    run.said(from, { type: 'probed', peer, roundTripMs: 0.2, bytesPerSecond: 1e9 });
  told(A, B); // nobody asked
  told(A, C);
  run.settle();
  expect(peers(run.plan as Plan)).toEqual([A]);
  told(C, A);
  run.settle();
  expect(peers(run.plan as Plan)).toContain(C);
});

test('a plan that is needed is made without a search where the search does not answer; what it says later is passed over', () => {
  const run = new PlannedRun();
  run.doesSearch = false;
  run.joins(A, profile(0.01));
  run.joins(B, profile(0.01));
  expect(run.plan).toBeNull();
  const [older, newer] = run.searches;
  invariant(older && newer, 'both were searched for');
  expect(newer.budget).toBe('atOnce');
  run.tell({ type: 'searched', search: older.search, found: found(older) });
  expect(run.plan).toBeNull();
  const deadline = replannerDeadline(run.state);
  invariant(deadline !== null, 'there is a deadline');
  run.nowMs = deadline - 1;
  run.tell({ type: 'deadlineReached' });
  expect(run.plan).toBeNull();
  run.nowMs = deadline;
  run.tell({ type: 'deadlineReached' });
  expect(run.plan).toMatchObject({ stages: [{ layers: [0, 2] }, { layers: [2, 4] }] });
  const epoch = run.epoch;
  run.tell({ type: 'searched', search: newer.search, found: found(newer) });
  expect(run.epoch).toBe(epoch);
});

test('a newcomer is told that the plan stays where the search refuses, or never answers', () => {
  for (const refuses of [true, false]) {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    run.doesSearch = false;
    run.joins(B, profile(0.01));
    run.want('arrival');
    const [search] = run.searches;
    invariant(search, 'it is searched for');
    const told = run.proposals.length;
    run.nowMs = replannerDeadline(run.state) ?? 0;
    if (refuses) run.tell({ type: 'searched', search: search.search, found: { ok: false, reason: 'no' } });
    else run.tell({ type: 'deadlineReached' });
    expect(run.proposals.slice(told)).toEqual([{ answer: 'stays' }]);
  }
});

test('without auto the wishes answer, and it only predicts', () => {
  const run = new PlannedRun();
  run.state = beginReplanning({ ...CONFIG, wishes: { schedule: '1f1b' } });
  run.joins(A, profile(0.0001));
  run.joins(B, profile(0.5));
  run.want('arrival');
  run.settle();
  expect(run.plan).toMatchObject({ schedule: '1f1b', stages: [{ layers: [0, 2] }, { layers: [2, 4] }] });
  expect(run.state.appraisal).toMatchObject({ verdict: null, predictedSeconds: expect.any(Number) });
  expect(run.searches).toEqual([]);
});

function steadyRun(): PlannedRun {
  const run = new PlannedRun();
  run.joins(A, profile(0.05));
  run.joins(B, profile(0.05));
  for (let index = 0; index < 12; index++) run.step(index, () => 0.05);
  return run;
}

const reportOf = (run: PlannedRun, links: readonly LinkReport[], uploadBytesPerSecond?: number) => ({
  ...{ type: 'report' as const, epoch: run.epoch, step: 12, losses: [], shards: [], bytesDirect: 0, bytesRelayed: 0 },
  ...{ spans: [], links: [...links], ...(uploadBytesPerSecond !== undefined && { uploadBytesPerSecond }) },
});

test('[AP4] a donor whose rate is 0 keeps nobody out', () => {
  const run = steadyRun();
  run.said(B, reportOf(run, [], 0));
  run.joins(C, profile(0.02));
  run.want('arrival');
  run.settle();
  expect(run.logs.join()).not.toMatch(/NaN|Infinity/);
  expect(samplesOf(run.plan, C)).toBeGreaterThan(0);
});

test('a donor that is remembered with a line of 0 bytes a second is one whose line is not known', () => {
  const measured = profile(0.05);
  const left = { ...measured, ratios: [], uploadBytesPerSecond: 0, downloadBytesPerSecond: 0 };
  const run = new PlannedRun(new Map([['key of b', left]]));
  run.joins(A, measured);
  run.joins(B, measured, NO_LIMITS, 'key of b');
  expect(samplesOf(run.plan, B)).toBeGreaterThan(0);
});

test('what others say of a line is not kept for its donor’s next visit', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.05), NO_LIMITS, 'key of a');
  run.joins(B, profile(0.05));
  run.joins(C, profile(0.05));
  for (let index = 0; index < 12; index++) run.step(index, () => 0.05);
  const heard = { peer: A, route: 'direct', roundTripMs: 40, bytesPerSecond: null, receivedBytesPerSecond: 1 } as const;
  for (const peer of [B, C]) run.said(peer, reportOf(run, [heard]));
  run.tell({ type: 'donorGone', peer: A });
  expect(run.saved.get('key of a')).toMatchObject({ ratios: expect.anything() });
  expect(run.saved.get('key of a')?.uploadBytesPerSecond).toBeUndefined();
});

test('what is measured of a donor counts with those of its line who were in the plan', () => {
  const run = new PlannedRun();
  for (const peer of [A, B]) run.lines.set(peer, 'home');
  for (const peer of [A, B, C]) run.joins(peer, profile(0.05), NO_LIMITS, `key of ${peer}`);
  for (let index = 0; index < 12; index++) run.step(index, () => 0.05);
  expect(run.plan && peers(run.plan).toSorted()).toEqual([A, B, C]);
  const link = { peer: C, route: 'direct', roundTripMs: 40, bytesPerSecond: 2e6 } as const;
  run.said(A, reportOf(run, [link]));
  run.said(C, reportOf(run, [{ ...link, peer: A }]));
  expect(run.state.donors.map(({ measuredWith }) => measuredWith)).toEqual([2, 1, 1]);
  const { cluster } = searchProblem(run.state.config, run.state.donors, [A, B, C], new Map(), 'now');
  // B's was not measured: half of a good line.
  expect(cluster.peers.map(({ uploadBytesPerSecond }) => uploadBytesPerSecond)).toEqual([2e6, 2.5e6, 2e6]);
  // What is kept for the next visit is the whole line.
  run.tell({ type: 'donorGone', peer: A });
  expect(run.saved.get('key of a')?.uploadBytesPerSecond).toBe(4e6);
});
