import { expect, test } from 'vitest';
import type { PeerProfile } from '../../swarm/autoplan/peerProfile.ts';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { Effect, Proposal } from '../../swarm/coordinator/events.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import type { ReportMessage } from '../../swarm/messages/messages.ts';
import type { LinkReport, Profile } from '../../swarm/messages/profile.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { type Plan, peers, problems } from '../../swarm/plan/plan.ts';
import { reasonText } from '../../swarm/planner/reason.ts';
import { DonorProfiles, type KeptProfiles } from '../donors/donorProfiles.ts';
import { AutoPlanner } from './autoPlanner.ts';
import { searchInSlices } from './planThread.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 128, vocab_size: 256 },
});
if (!parsed.ok) throw new Error(parsed.reason);
const model = parsed.value;
const batch = { samples: 16, sequence: 128 };
const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];

/** A layer takes `seconds` for a sample. */
const profile = (seconds: number): Profile => ({
  layers: [
    { samples: 1, forwardSeconds: seconds, backwardSeconds: 2 * seconds },
    { samples: 2, forwardSeconds: 2 * seconds, backwardSeconds: 4 * seconds },
  ],
  memoryBytes: 1e9,
  checkedKernels: 0,
});

/** A run that takes every proposal at once. */
class Rehearsal {
  readonly planner: AutoPlanner;
  readonly offer: PeerId[] = [];
  readonly proposals: (Proposal | null)[] = [];
  readonly records: string[] = [];
  readonly probes: (readonly [PeerId, PeerId])[] = [];
  plan: Plan | null = null;
  epoch = 0;
  stepSeconds = 0;
  /** What the clock of the test is ahead by. */
  aheadMs = 0;

  constructor(kept?: KeptProfiles) {
    const options = { model, batch, now: () => performance.now() + this.aheadMs, search: searchInSlices };
    this.planner = new AutoPlanner({ ...options, ...(kept && { kept }) });
    this.planner.attach({
      planned: () => ({ offer: [...this.offer], plan: this.plan }),
      propose: (answer) => {
        this.proposals.push(answer.answer === 'plan' ? answer : null);
        if (answer.answer === 'plan') this.begin(answer.plan, answer.reason);
      },
      probe: (...pair) => void this.probes.push(pair),
      record: (detail) => this.records.push(detail),
      log: () => {},
      failed: (error) => {
        throw error;
      },
    });
  }

  async joins(peer: PeerId, measured: Profile, limits = NO_LIMITS, donor: string | null = null): Promise<void> {
    this.offer.push(peer);
    this.planner.measured(peer, measured, limits, donor);
    if (this.plan === null) this.makePlan();
    await this.planner.settled();
  }

  makePlan(): Plan {
    const made = this.planner.makePlan(this.offer, new Map());
    if (!made.ok) throw new Error(made.reason);
    this.begin(made.value, 'donors are there');
    return made.value;
  }

  begin(plan: Plan, reason: string): void {
    this.plan = plan;
    this.epoch++;
    this.planner.performing({ type: 'storeEpoch', epoch: this.epoch, generation: 0, plan, reason });
  }

  /** One step: each member's spans take `factor(peer)` of what a sample and layer takes by `seconds(peer)`. */
  step(index: number, seconds: (peer: PeerId) => number, links: readonly LinkReport[] = []): void {
    const plan = this.plan;
    if (!plan) throw new Error('no plan');
    for (const peer of peers(plan)) {
      let at = 0;
      const spans: ReportMessage['spans'] = [];
      for (const [stage, { layers, members }] of plan.stages.entries())
        for (const id of members.find((member) => member.peer === peer)?.microBatches ?? []) {
          const [from, to] = plan.microBatches.find((microBatch) => microBatch.id === id)?.samples ?? [0, 0];
          const one = seconds(peer) * (to - from) * (layers[1] - layers[0]);
          for (const [op, factor] of [
            ['F', 1],
            ['B', 2],
          ] as const) {
            spans.push({ action: `${stage}${op}${id}`, start: at, end: at + one * factor });
            at += one * factor;
          }
        }
      this.planner.heard(peer, {
        ...{ type: 'report', epoch: this.epoch, step: index, losses: [], shards: [], bytesDirect: 0, bytesRelayed: 0 },
        ...{ spans, links: [...links] },
      });
    }
    const record = { step: index, seconds: this.stepSeconds } as Extract<Effect, { type: 'storeCommit' }>['record'];
    this.planner.performing({ type: 'storeCommit', record, ledger: [] });
  }
}

const samplesOf = (plan: Plan | null, peer: PeerId): number =>
  (plan?.stages ?? []).reduce(
    (sum, { layers: [from, to], members }) =>
      sum + (to - from) * (members.find((member) => member.peer === peer)?.samples ?? 0),
    0,
  );

test('[AP1] a donor that computes a layer four times as fast gets more of the work', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.04));
  await run.joins(B, profile(0.01));
  expect(problems(model, batch, run.plan as Plan)).toEqual([]);
  expect(samplesOf(run.plan, B)).toBeGreaterThan(2 * samplesOf(run.plan, A));
  expect(run.planner.planning?.predictedSeconds).toBeLessThan(16 * 4 * 0.03);
});

test('[AP1] a share of the GPU time makes a donor slower by as much, and changes the plan when it is changed', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.01), { ...NO_LIMITS, speed: 0.25 });
  await run.joins(B, profile(0.01));
  expect(samplesOf(run.plan, B)).toBeGreaterThan(2 * samplesOf(run.plan, A));
  const before = samplesOf(run.plan, A);
  run.planner.heard(A, { type: 'limits', limits: NO_LIMITS });
  await run.planner.settled();
  expect(samplesOf(run.plan, A)).toBeGreaterThan(before);
});

test('[AP2] a newcomer who does not pay for the change is told that the plan stays', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.0001));
  const plan = run.plan;
  await run.joins(B, profile(0.5));
  expect(run.plan).toBe(plan);
  expect(run.proposals.at(-1)).toBeNull();
  expect(run.planner.planning?.verdict).toMatch(/b joins: the plan stays/);
});

test('[AP2] what a step takes beside what is predicted makes a gain smaller', async () => {
  for (const stepSeconds of [0, 100]) {
    const run = new Rehearsal();
    await run.joins(A, profile(0.01));
    run.stepSeconds = stepSeconds;
    for (let step = 0; step < 6; step++) run.step(step, () => 0.01);
    await run.joins(B, profile(0.01));
    expect(peers(run.plan as Plan)).toHaveLength(stepSeconds === 0 ? 2 : 1);
  }
});

test('[AP3] ten steps of spans more than a fifth off the profile are a drift; nine are none', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.01));
  await run.joins(B, profile(0.01));
  const judged = run.proposals.length;
  const slow = (peer: PeerId): number => (peer === A ? 0.05 : 0.01);
  // The head is in no layer's time: what is measured is held against what the same spans were before.
  for (let step = 0; step < 12; step++) run.step(step, () => 0.01);
  await run.planner.settled();
  const settled = run.proposals.length;
  const before = samplesOf(run.plan, A);
  for (let step = 12; step < 21; step++) run.step(step, slow);
  await run.planner.settled();
  expect(run.proposals.length).toBe(settled);
  for (let step = 21; step < 60; step++) {
    run.step(step, slow);
    await run.planner.settled();
  }
  expect(run.proposals.length).toBeGreaterThan(settled);
  expect(samplesOf(run.plan, A)).toBeLessThan(before);
  expect(judged).toBeGreaterThan(0);
  const kept = run.planner.profile(A);
  expect(kept?.ratios.find(({ op }) => op === 'B')?.ratio).toBeGreaterThan(3);
});

test('[AP4] links are taken for good until they are measured; slow ones leave a donor out', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.002));
  await run.joins(B, profile(0.002));
  expect(peers(run.plan as Plan)).toHaveLength(2);
  const slow = (peer: PeerId): LinkReport => ({ peer, route: 'relayed', roundTripMs: 900, bytesPerSecond: 20_000 });
  for (let step = 0; step < 10; step++) run.step(step, () => 0.002, [slow(A), slow(B)]);
  await run.planner.settled();
  expect(peers(run.plan as Plan)).toHaveLength(1);
});

test('[AP6] a donor that is remembered starts from its last numbers, and they are kept when it goes', async () => {
  const saved = new Map<string, PeerProfile>();
  const kept = {
    profile: (donor: string) => saved.get(donor) ?? null,
    save: (donor: string, last: PeerProfile) => void saved.set(donor, last),
  };
  const first = new Rehearsal(kept);
  await first.joins(A, profile(0.01), NO_LIMITS, 'key of a');
  await first.joins(B, profile(0.01));
  for (let step = 0; step < 6; step++) first.step(step, (peer) => (peer === A ? 0.05 : 0.01));
  first.planner.gone(A);
  expect([...saved.keys()]).toEqual(['key of a']);
  const again = new Rehearsal(kept);
  await again.joins(C, profile(0.01), NO_LIMITS, 'key of a');
  await again.joins(B, profile(0.01));
  expect(samplesOf(again.plan, B)).toBeGreaterThan(2 * samplesOf(again.plan, C));
});

test('[AP1] donors of whom nobody measured anything are taken for equals', async () => {
  const run = new Rehearsal();
  const nothing: Profile = { layers: [], memoryBytes: 1e9, checkedKernels: 0 };
  run.offer.push(A, B);
  for (const peer of [A, B]) run.planner.measured(peer, nothing, NO_LIMITS, null);
  expect(run.makePlan().stages).toHaveLength(2);
  expect(run.planner.planning?.predictedSeconds).toBeNull();
});

test('[MP4] each donor is planned with as it computes', () => {
  const profiles = new DonorProfiles({ model, batch: { ...batch, compute: 'f16' } });
  profiles.measured(A, profile(0.01), NO_LIMITS, null, true);
  profiles.measured(B, profile(0.01), NO_LIMITS, null);
  expect([...(profiles.problem([A, B]).computes ?? [])]).toEqual([
    [A, 'f16'],
    [B, 'f32'],
  ]);
});

test('[AP5] the reasons and the prediction are recorded with every plan', async () => {
  const run = new Rehearsal();
  await run.joins(C, profile(0.01));
  expect(JSON.parse(run.records[0] ?? '')).toMatchObject({ epoch: 1, predictedSeconds: expect.any(Number) });
  const reasons = run.planner.planning?.reasons.map(reasonText).join();
  expect(reasons).toContain('c: stage 0, layers 1–4, every sample');
});

test('[AP7] a donor whose measurements swing for ever is looked at less and less', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.01));
  await run.joins(B, profile(0.01));
  run.stepSeconds = 0.5;
  const looks: number[] = [];
  for (let step = 0; step < 2_000; step++) {
    const before = run.proposals.length;
    run.step(step, (peer) => (peer === A && step % 60 < 30 ? 0.05 : 0.01));
    run.aheadMs += 1_000;
    await run.planner.settled();
    if (run.proposals.length > before) looks.push(step);
  }
  expect(looks.length).toBeGreaterThan(2);
  expect(looks.length).toBeLessThan(16);
  expect(looks.filter((step) => step >= 1_000).length).toBeLessThan(4);
});

test('[AP7] an admission that says nothing takes any time does not keep all the work', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0));
  await run.joins(B, profile(0.01));
  expect(samplesOf(run.plan, A)).toBeGreaterThan(samplesOf(run.plan, B));
  for (let step = 0; step < 60; step++) {
    run.step(step, () => 0.01);
    await run.planner.settled();
  }
  expect(samplesOf(run.plan, B)).toBeGreaterThan(0);
  expect(run.planner.planning?.predictedSeconds).toBeGreaterThan(0.1);
});

test('[AP8] links that no step uses are measured now and then, and change the plan once both ends have told of them', async () => {
  const run = new Rehearsal();
  await run.joins(A, profile(0.0008));
  await run.joins(B, profile(0.0008), { ...NO_LIMITS, uploadBytesPerSecond: 100_000 });
  await run.joins(C, profile(0.0008));
  expect(peers(run.plan as Plan)).toEqual([A]); // two would wait for what their link is taken for
  run.step(0, () => 0.0008);
  expect(run.probes.map((pair) => pair.toSorted())).toEqual([[A, C]]); // B's cap is for the run
  const told = (from: PeerId, peer: PeerId) =>
    run.planner.heard(from, { type: 'probed', peer, roundTripMs: 0.2, bytesPerSecond: 1e9 });
  told(A, B); // nobody asked
  told(A, C);
  await run.planner.settled();
  expect(peers(run.plan as Plan)).toEqual([A]);
  told(C, A);
  await run.planner.settled();
  expect(peers(run.plan as Plan)).toContain(C);
});
