import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { withoutReplicas } from '../planner/replicas.ts';
import { CONFIG, PlannedRun, profile } from '../testing/plannedRun.ts';
import { beginReplanning } from './replanner.ts';
import type { PlanWishes } from './wishes.ts';

const model = acceptedModel(CONFIG);
const [A, B, C, D, E] = [peerId('a'), peerId('b'), peerId('c'), peerId('d'), peerId('e')];

function wishing(wishes: PlanWishes): PlannedRun {
  const run = new PlannedRun();
  run.state = beginReplanning({ ...CONFIG, wishes });
  return run;
}

const workersOf = (plan: Plan | null): PeerId[] => [
  ...new Set(plan?.stages.flatMap(({ members }) => members.map(({ peer }) => peer))),
];
const replicasOf = (plan: Plan | null): PeerId[][] =>
  plan?.state.flatMap(({ shards }) => shards.map(({ replicas }) => [...replicas])) ?? [];
const everyShard = (plan: Plan | null, replicas: PeerId[]): PeerId[][] => replicasOf(plan).map(() => replicas);

test('a newcomer too slow to compute keeps the copies that the plan lacks; who comes after that does not', () => {
  const run = wishing({ auto: true, replicas: 1 });
  run.joins(A, profile(0.001));
  const alone = run.plan;
  expect(replicasOf(alone)).toEqual(everyShard(alone, []));
  run.joins(B, profile(0.5));
  expect(withoutReplicas(run.plan as Plan)).toEqual(alone);
  expect(replicasOf(run.plan)).toEqual(everyShard(alone, [B]));
  const reason = 'b can keep copies of the state that are missing';
  expect(run.proposals).toContainEqual(expect.objectContaining({ reason }));
  const copied = run.plan;
  run.joins(C, profile(0.5));
  expect(run.plan).toBe(copied);
});

test('the plan after a loss leaves copies where they are', () => {
  const run = wishing({ auto: true, replicas: 1 });
  run.joins(A, profile(0.001));
  run.joins(B, profile(0.5));
  const kept = replicasOf(run.plan);
  run.joins(C, profile(0.5));
  run.offer.splice(0, 3, C, B, A);
  run.want('now');
  run.settle();
  expect(workersOf(run.plan)).toEqual([A]);
  expect(replicasOf(run.plan)).toEqual(kept);
});

test('the operator is told why there are fewer, when the plan begins, once', () => {
  const run = wishing({ auto: true, replicas: 1 });
  run.joins(A, profile(0.001));
  const sentence =
    'One donor keeps the only copy of the state. When it is gone, the run goes back to its newest checkpoint.';
  const said = () => run.logs.filter((line) => line === sentence);
  expect(said()).toHaveLength(1);
  expect(run.state.appraisal?.reasons).toContainEqual({ peer: null, text: sentence });
  run.begin(run.plan as Plan, 'it is done again');
  expect(said()).toHaveLength(1);
});

test('without auto the wish is kept as well, and a plan that was given keeps its own', () => {
  const run = wishing({ schedule: 'gpipe', replicas: 1 });
  run.joins(A, profile(0.001));
  run.joins(B, profile(0.001));
  run.want('now');
  expect(workersOf(run.plan)).toEqual([A, B]);
  for (const { shards } of (run.plan as Plan).state)
    for (const { peer, replicas } of shards) expect(replicas).toEqual([peer === A ? B : A]);
  const plan = equalSplit(model, CONFIG.batch.samples, [A, B]);
  const given = wishing({ plan, replicas: 1 });
  given.joins(A, profile(0.001));
  expect(given.plan && peers(given.plan)).toEqual([A]);
  given.joins(B, profile(0.001));
  given.want('now');
  expect(given.plan).toEqual(plan);
});

test('of what a newcomer keeps someone has the copy who is here longer, where another newcomer could have it', () => {
  const run = wishing({ schedule: 'gpipe', replicas: 1 });
  for (const donor of [A, B]) run.joins(donor, profile(0.001));
  run.want('now');
  run.nowMs += 20_000;
  for (const donor of [C, D, E]) {
    run.joins(donor, profile(0.001));
    run.want('now');
  }
  expect(workersOf(run.plan)).toEqual([A, B, C, D, E]);
  const ofNewcomers = (run.plan as Plan).state.flatMap(({ shards }) =>
    shards.filter(({ peer }) => [C, D, E].includes(peer)),
  );
  expect(ofNewcomers.length).toBeGreaterThan(0);
  for (const { replicas } of ofNewcomers) expect([A, B]).toContain(replicas[0]);
});
