/** No plan gives a stranger the first stage, the last one, or state of embedding or head, whoever makes it and of whatever cluster. */
import { expect, test } from 'vitest';
import { wishedPlan } from '../autoplan/wishedPlan.ts';
import { answerWished } from '../autoplan/wishes.ts';
import { at, type PeerId, peerId, seededRandom } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { NEEDS_OWN } from '../plan/ends.ts';
import { type Plan, peers, SCHEDULE_NAMES } from '../plan/plan.ts';
import { autoIslands } from '../testing/islands.ts';
import { tightCluster } from '../testing/tightClusters.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterProblem } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { islandsAsked, planIslands } from './islandPlan.ts';
import { replicaWish } from './replicas.ts';

const SIZES = { n_layer: 4, n_head: 2, n_embd: 32, n_positions: 32, vocab_size: 128 };
const read = modelFromConfig({ model_type: 'gpt2', ...SIZES });
if (!read.ok) throw new Error(read.reason);
const model = read.value;
const batch = { samples: 8, sequence: 16, ends: 'own' } as const;
const CASES = process.env.SHOAL_LONG === '1' ? 100 : 4;

/** Strangers at the ends, found without the code that keeps them away. */
function strangersAtEnds({ stages, state }: Plan, own: ReadonlySet<string>): PeerId[] {
  const [first, last] = [at(stages, 0), at(stages, stages.length - 1)];
  const computing = [...first.members, ...last.members].map(({ peer }) => peer);
  const keeping = state
    .filter(({ block }) => block === 'embedding' || block === 'head')
    .flatMap(({ shards }) => shards.flatMap(({ peer, replicas }) => [peer, ...replicas]));
  return [...computing, ...keeping].filter((peer) => !own.has(peer));
}

/** Some of them the operator's own, roomier than tight ones so that most find a plan. */
function drawn(seed: number): { cluster: Cluster; own: ReadonlySet<string> } {
  const random = seededRandom(seed);
  const one = tightCluster(random, { model, batch });
  const other = tightCluster(random, { model, batch });
  const all = [...one.peers, ...other.peers.map((peer) => ({ ...peer, id: `q${peer.id}` }))];
  const marked = all.map((peer) => ({ ...peer, memoryBytes: 3 * peer.memoryBytes, own: random() < 0.5 }));
  return {
    cluster: { ...one, peers: marked },
    own: new Set(marked.flatMap(({ id, own }) => (own ? [id] : []))),
  };
}

test(`[OE1] of ${CASES} random clusters no plan that is searched has a stranger at its ends`, () => {
  const counts = { stages: 0, strangers: 0 };
  for (let seed = 1; seed <= CASES; seed++) {
    const { cluster, own } = drawn(seed);
    const problem: ClusterProblem = { model, batch, cluster, replicas: replicaWish(1) };
    const found = planCluster(
      problem,
      ({ work }) => work < 400,
      () => ['it does not fit'],
    );
    if (!found.ok) {
      if (own.size === 0) expect(found.reason).toBe(NEEDS_OWN);
      continue;
    }
    expect(strangersAtEnds(found.value.plan, own), `seed ${seed}`).toEqual([]);
    counts.stages = Math.max(counts.stages, found.value.plan.stages.length);
    if (peers(found.value.plan).some((peer) => !own.has(peer))) counts.strangers++;
  }
  expect(counts.stages).toBeGreaterThan(2);
  expect(counts.strangers).toBeGreaterThan(0);
}, 300_000);

test('[OE1] nor has one that a command line wishes for, in whatever order of work', () => {
  let made = 0;
  for (let seed = 1; seed <= CASES; seed++) {
    const { cluster, own } = drawn(seed);
    for (const schedule of SCHEDULE_NAMES) {
      const found = wishedPlan({ model, batch, cluster, replicas: replicaWish(1) }, { schedule });
      if (!found.ok) continue;
      made++;
      expect(strangersAtEnds(found.value.plan, own), `seed ${seed}, ${schedule}`).toEqual([]);
    }
  }
  expect(made).toBeGreaterThan(CASES);
});

const offerOf = (names: readonly string[]) =>
  names.map((name) => ({ peer: peerId(name), memoryBytes: null, isNeeded: true }));
const answered = (names: readonly string[], own: readonly string[], wishes = {}) =>
  answerWished({ purpose: 'now', offer: offerOf(names), inForce: null }, model, batch, wishes, {
    own: new Set(own.map(peerId)),
  });

test('[OE1] own donors take the ends in the order they joined, the others the places between; alone they need no stranger', () => {
  const made = answered(['s', 'a', 't', 'b'], ['a', 'b']);
  expect(made.answer === 'plan' && made.plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([
    ['a'],
    ['s'],
    ['t'],
    ['b'],
  ]);
  expect(made.answer === 'plan' && made.plan).toEqual(equalSplit(model, 8, ['a', 's', 't', 'b'].map(peerId)));
});

test('[OE2] where own donors are too few, or a given plan has others at its ends, there is none', () => {
  expect(answered(['s', 't'], [])).toEqual({ answer: 'none', reason: NEEDS_OWN });
  expect(answered(['s', 'a', 't'], ['a'])).toMatchObject({
    answer: 'none',
    reason: expect.stringContaining(NEEDS_OWN),
  });
  const plan = equalSplit(model, 8, ['x', 'y'].map(peerId));
  expect(answered(['a', 's'], ['a'], { plan })).toEqual({ answer: 'none', reason: NEEDS_OWN });
  expect(answered(['a', 'b'], ['a', 'b'], { plan }).answer).toBe('plan');
});

test('[OE3] islands are of own donors alone', () => {
  const { cluster, own } = drawn(3);
  const asked = islandsAsked(autoIslands(30));
  const found = planIslands({ model, batch, cluster }, asked);
  if (!found.ok) throw new Error(found.reason);
  const used = found.value.islands.flatMap(({ plan }) => peers(plan));
  expect(used.length).toBeGreaterThan(0);
  expect(used.filter((peer) => !own.has(peer))).toEqual([]);
  expect(found.value.idle.map(({ peer }) => peer)).toEqual(
    expect.arrayContaining(cluster.peers.flatMap(({ id }) => (own.has(id) ? [] : [id]))),
  );
});
