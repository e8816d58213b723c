import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, test } from 'vitest';
import { arrayOf, at, got, invariant, seededRandom, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import type { Model } from '../model/model.ts';
import { peers as peersOf, problems } from '../plan/plan.ts';
import { batchOf } from '../run/runFile.ts';
import type { RunWire } from '../wire.ts';
import { meetsOf, weightOf } from './chains.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { memoryOf } from './draft.ts';
import { groupOf, islandSave, meetingOf, type Part, plannedGroups } from './islandGroups.ts';
import { type IslandPlan, type IslandsAsked, parsePlannedRun, planIslands, savingWords } from './islandPlan.ts';

function modelWith(config: object): Model {
  const made = modelFromConfig({ model_type: 'gpt2', n_head: 4, n_positions: 64, vocab_size: 256, ...config });
  invariant(made.ok, 'a model');
  return made.value;
}
const IS_LONG = process.env.SHOAL_LONG === '1';
const MODEL = modelWith({ n_layer: 4, n_embd: 64, tie_word_embeddings: false });
const ELEMENTS = totalOf(MODEL.blocks, ({ elements }) => elements);
const BATCH = { samples: 8, sequence: 64 };
/** Not of a donor alone, of two together. */
const SMALL = ELEMENTS * 18 + 2e6;
const ASKED: IslandsAsked = {
  rounds: { count: 'auto', roundSeconds: 60 },
  outer: { learningRate: 1, momentum: 0.5 },
  exchange: { top: 64, chunk: 4096, feedback: 0.95 },
  publish: 'int8',
};

function clusterOf(peers: readonly object[], links: object = {}): Cluster {
  const parsed = parseCluster({ peers, links: { default: { latencySeconds: 0.01, ...links } } }, 'cluster.json');
  invariant(parsed.ok, parsed.ok ? '' : parsed.reason);
  return parsed.value;
}
const problemOf = (cluster: Cluster, wire: RunWire = 'f32'): ClusterProblem => ({
  ...{ model: MODEL, cluster },
  batch: { ...BATCH, wire },
});

function planned(cluster: Cluster, asked: Partial<IslandsAsked> = {}, wire?: RunWire): IslandPlan {
  const found = planIslands(problemOf(cluster, wire), { ...ASKED, ...asked });
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const membersOf = ({ islands }: IslandPlan): string[][] =>
  islands.map(({ plan }) => peersOf(plan).map(String).toSorted());

/** Unequal in everything, some without room for the model. */
function randomCluster(seed: number, count: number): Cluster {
  const random = seededRandom(seed);
  const peers = arrayOf(count, (i) => ({
    id: `p${i}`,
    memoryBytes: ELEMENTS * (8 + 40 * random()) + 2e6,
    flopsPerSecond: 2e9 * 10 ** random(),
    uploadBytesPerSecond: 1e5 * 30 ** random(),
    downloadBytesPerSecond: 1e6 * 10 ** random(),
    hostBytes: random() < 0.5 ? 0 : ELEMENTS * 8 * random(),
    region: random() < 0.5 ? 'eu' : 'us',
    meanSessionSeconds: 600 * 10 ** random(),
  }));
  return clusterOf(peers, { bytesPerSecond: 1e6, windowBytes: 1e5 });
}

describe('the plan says how islands meet', () => {
  const line = (uploadBytesPerSecond: number, i: number) => ({
    ...{ id: `q${i}`, memoryBytes: ELEMENTS * 80, flopsPerSecond: 2e9 },
    ...{ uploadBytesPerSecond, downloadBytesPerSecond: 1e6 },
  });
  const slow = clusterOf([3e3, ...Array<number>(7).fill(1e6)].map(line));
  const sentence = ({ reasons }: IslandPlan): string => reasons.map(({ text }) => text).join();

  test('with owners, where one slow line would keep the packets of all', () => {
    const found = planned(slow);
    expect(sentence(found)).toContain('Each range of the model has an owner and a copy at meetings');
    expect(totalOf(found.predicted.owners, ({ share }) => share)).toBeCloseTo(1, 9);
  });

  test('to every island, where lines are alike; then nobody owns anything, and the least is what packets take', () => {
    const found = planned(clusterOf([1e6, 1e6, 1e6].map(line)));
    expect(sentence(found)).toContain('every donor sends its packets to every other island');
    expect(found.predicted.owners).toEqual([]);
    // Two packets up, of 120 bytes a run of 4,096; a tensor's last run may be shorter and says no less.
    const seconds = (2 * 120 * (ELEMENTS / 4096)) / 1e6;
    expect(found.predicted.meetingSeconds).toBeGreaterThan(seconds + 6 * 0.01);
    expect(found.predicted.meetingSeconds).toBeLessThan(2 * seconds + 6 * 0.01 + 2 * ELEMENTS * 3e-8);
  });

  test.each([{ rounds: { count: 8, innerSteps: 10 } }, { publish: 'f32' }, { exchange: 'f32' }] as const)(
    'to every island, where a run has no owners: %o',
    (asked) => {
      const found = planned(slow, asked);
      expect(sentence(found)).not.toContain('owner');
      expect(found.predicted.owners).toEqual([]);
    },
  );

  test('without owners a keeper has 8 bytes a parameter more, and whose line all would wait for is left out', () => {
    const memoryBytes = (bytes: number) => clusterOf([{ ...line(1e6, 0), memoryBytes: ELEMENTS * bytes }]);
    const [first] = planned(memoryBytes(60)).islands;
    const peer = first?.predicted.peers[0];
    invariant(first && peer, 'an island');
    const costs = clusterCosts(problemOf(memoryBytes(60)));
    expect(peer.memoryBytes).toBe(got(memoryOf(costs, first.plan), peer.peer) + 16 * ELEMENTS);
    const { islands, idle } = planned(slow, { publish: 'f32' });
    expect(islands).toHaveLength(7);
    expect(idle.map(({ peer: left }) => String(left))).toEqual(['q0']);
  });
});

describe('islands', () => {
  test.each(IS_LONG ? [1, 2, 3, 4, 5, 6] : [3, 5, 6])('are sound: cluster %d', (seed) => {
    const cluster = randomCluster(seed, 12);
    const found = planned(cluster, {}, 'auto');
    const costs = clusterCosts(problemOf(cluster, 'auto'));
    const members = membersOf(found).flat();
    expect(new Set(members).size).toBe(members.length);
    expect([...members, ...found.idle.map(({ peer }) => String(peer))].toSorted()).toEqual(
      cluster.peers.map(({ id }) => id).toSorted(),
    );
    for (const { plan, predicted } of found.islands) {
      expect(problems(MODEL, BATCH, plan)).toEqual([]);
      const memory = memoryOf(costs, plan);
      for (const { peer, memoryBytes, memoryLimitBytes } of predicted.peers) {
        const kept = plan.state
          .flatMap(({ shards }) => shards.filter((shard) => shard.peer === peer))
          .reduce((sum, { range }) => sum + range[1] - range[0], 0);
        // What was published and what was left over lie in main memory, as far as it is given.
        const host = at(cluster.peers, costs.placeOf(peer)).hostBytes ?? 0;
        expect(memoryBytes).toBe(got(memory, peer) + Math.max(0, 8 * kept - host));
        expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
      }
    }
    expect(found.predicted.tokensPerSecond).toBeLessThanOrEqual(
      totalOf(found.islands, ({ predicted }) => predicted.tokensPerSecond),
    );
  });

  test('where a donor stands in the file changes nothing', () => {
    const cluster = randomCluster(7, 10);
    const turned = { ...cluster, peers: cluster.peers.toReversed() };
    expect(planned(turned)).toEqual(planned(cluster));
  });

  test('count by their chance to live to their meeting, by a power of it, or by their tokens alone', () => {
    const costs = clusterCosts({ ...problemOf(randomCluster(11, 5)), planeBytes: 8 });
    const asked = { costs, roundSeconds: 600, meets: meetsOf(costs, ASKED, 600, null), overlaps: true };
    const weight = (caution: number): number => weightOf({ ...asked, caution }, [0, 1, 3]);
    expect(weight(0)).toBe(1);
    expect(weight(1)).toBeLessThan(0.7);
    expect(weight(0.5) ** 2).toBeCloseTo(weight(1), 12);
  });

  test.each([11, 12, 13, 14])('are worth about as much as the best of all groupings: cluster %d', (seed) => {
    const cluster = randomCluster(seed, 5);
    const costs = clusterCosts({ ...problemOf(cluster), planeBytes: 8 });
    const asked = {
      costs,
      roundSeconds: 60,
      meets: { sent: 1, received: 1, waitedSeconds: 12, groupSeconds: 0 },
      overlaps: true,
      caution: 1,
    };
    const worth = (members: readonly number[]): number => groupOf(asked, members)?.worth ?? 0;
    const best = Math.max(...partitions([0, 1, 2, 3, 4]).map((groups) => totalOf(groups, (members) => worth(members))));
    const found = totalOf(plannedGroups(asked).groups, (group) => group.worth);
    expect(best).toBeGreaterThan(0);
    expect(found).toBeGreaterThan(0.97 * best);
    expect(found).toBeLessThanOrEqual(best * (1 + 1e-9));
  });

  test.each([1, 2])('of a model of %i layers, too, where there are more donors than layers', (layers) => {
    const small = modelWith({ n_layer: layers, n_embd: 64 });
    const donors = ['a', 'b', 'c'].map((id) => ({ id, memoryBytes: 8e9, flopsPerSecond: 1e12 }));
    const found = planIslands({ ...problemOf(clusterOf(donors)), model: small }, ASKED);
    expect(found.ok && membersOf(found.value)).toEqual([['a'], ['b'], ['c']]);
  });

  const roomy = { memoryBytes: ELEMENTS * 60, flopsPerSecond: 2e9 };
  test('who has room is alone, and who has not makes an island with its like', () => {
    const small = { ...roomy, memoryBytes: SMALL };
    const found = planned(
      clusterOf([...'ab'].map((id) => ({ id, ...roomy })).concat([...'cd'].map((id) => ({ id, ...small }))), {
        bytesPerSecond: 3e5,
      }),
    );
    expect(membersOf(found).toSorted()).toEqual([['a'], ['b'], ['c', 'd']]);
  });

  test('fast links inside, slow ones between', () => {
    const peers = ['a', 'b', 'c', 'd'].map((id, i) => ({
      ...{ id, memoryBytes: SMALL, flopsPerSecond: 2e9, region: i % 2 ? 'eu' : 'us' },
    }));
    const parsed = parseCluster(
      {
        peers,
        links: {
          default: { latencySeconds: 0.1, bytesPerSecond: 2e5 },
          regions: ['eu', 'us'].map((name) => ({ between: [name, name], latencySeconds: 0.001, bytesPerSecond: 1e8 })),
        },
      },
      'cluster.json',
    );
    invariant(parsed.ok, 'a cluster');
    const members = membersOf(planned(parsed.value));
    expect(members.toSorted()).toEqual([
      ['a', 'c'],
      ['b', 'd'],
    ]);
  });

  test('a round is over when the last step that ends within it has ended', () => {
    const { islands, predicted } = planned(clusterOf([...'ab'].map((id) => ({ id, ...roomy }))));
    const ends = islands.map(({ predicted: own }) => own.stepsPerRound * own.stepSeconds);
    expect(Math.max(...ends)).toBeLessThan(60);
    expect(predicted.roundSeconds - predicted.meetingSeconds).toBeCloseTo(Math.max(...ends), 9);
  });

  test('a line that is too slow costs its own island steps, not the others', () => {
    const late = { id: 'e', ...roomy, downloadBytesPerSecond: 3e4 };
    const found = planned(clusterOf([...crowd(11, roomy, ELEMENTS / 1e2), late]));
    expect(found.islands).toHaveLength(12);
    const stepsOf = (name: string): number =>
      Number(/(\d+) steps? of/.exec(found.reasons.find(({ peer }) => peer === name)?.text ?? '')?.[1]);
    expect(stepsOf('e')).toBeLessThan(stepsOf('c1'));
    expect(found.predicted.meetingSeconds).toBeLessThan((17 / 16) * (ELEMENTS / 3e4));
  });

  test('with K islands of H steps the slowest is waited for, and groups take turns', () => {
    const found = planned(
      clusterOf([
        { id: 'a', ...roomy, memoryBytes: ELEMENTS * 90, flopsPerSecond: 4e9 },
        { id: 'b', ...roomy },
      ]),
      { rounds: { count: 3, innerSteps: 10 } },
    );
    expect(membersOf(found).toSorted()).toEqual([['a'], ['a'], ['b']]);
    const longest = Math.max(
      ...found.islands.map(({ plan, predicted }) => (peersOf(plan)[0] === 'a' ? 20 : 10) * predicted.stepSeconds),
    );
    const { roundSeconds, meetingSeconds, tokensPerSecond } = found.predicted;
    expect(roundSeconds - meetingSeconds).toBeCloseTo(longest, 9);
    expect(tokensPerSecond).toBeCloseTo((3 * 10 * 8 * 64) / roundSeconds, 9);
  });
});

describe('main memory', () => {
  const peers = (memory: number, hostBytes: number) =>
    ['a', 'b', 'c'].map((id, i) => ({
      ...{ id, memoryBytes: ELEMENTS * memory + 2e6, flopsPerSecond: (i + 1) * 2e9, hostBytes },
      uploadBytesPerSecond: i === 2 ? 1e6 : 1e7,
    }));
  const each = [{ count: 'auto', roundSeconds: 60 } as const, { count: 2, innerSteps: 10 }];

  test.each(IS_LONG ? [12, 16, 20, 24, 28, 32, 40, 60] : [12, 16, 60])(
    'more of it is neither refused nor slower: %d bytes a parameter',
    (memory) => {
      for (const rounds of each) {
        const of = (hostBytes: number) =>
          planIslands(problemOf(clusterOf(peers(memory, hostBytes), { bytesPerSecond: 1e6 })), { ...ASKED, rounds });
        const without = of(0);
        if (!without.ok) continue;
        for (const host of [1, 4, 8, 9, 16, 32, 1000]) {
          const found = of(host * ELEMENTS);
          invariant(found.ok, found.ok ? '' : found.reason);
          const { tokensPerSecond, expectedTokensPerSecond } = found.value.predicted;
          expect(tokensPerSecond).toBeGreaterThanOrEqual(without.value.predicted.tokensPerSecond);
          expect(expectedTokensPerSecond).toBeGreaterThanOrEqual(without.value.predicted.expectedTokensPerSecond);
          expect(expectedTokensPerSecond).toBeLessThan(tokensPerSecond);
          for (const { predicted } of found.value.islands)
            for (const own of predicted.peers) expect(own.memoryBytes).toBeLessThanOrEqual(own.memoryLimitBytes);
        }
      }
    },
  );

  test('a refusal says to whom how much is missing, and with so much there is a plan', () => {
    const of = (memoryBytes: number) =>
      planIslands(problemOf(clusterOf([{ id: 'a', memoryBytes, flopsPerSecond: 2e9 }])), ASKED);
    const few = of(ELEMENTS * 12);
    invariant(!few.ok, 'too small');
    expect(few.reason).toContain('hostBytes');
    const [, said = ''] =
      /"a" alone, which lacks least, needs ([\d,]+) bytes more of memoryBytes/.exec(few.reason) ?? [];
    const missing = Number(said.replaceAll(',', ''));
    expect(of(ELEMENTS * 12 + missing - 8).ok).toBe(false);
    expect(of(ELEMENTS * 12 + missing).ok).toBe(true);
  });
});

/** Alike but for the first one, whose uplink carries so few bytes a second that they want owners. */
const crowd = (count: number, donor: object, uploadBytesPerSecond: number) =>
  arrayOf(count, (i) => ({ id: `c${i}`, ...donor, ...(i === 0 ? { uploadBytesPerSecond } : {}) }));

test('who would do no step in a round is left out', () => {
  const fast = { memoryBytes: ELEMENTS * 60, flopsPerSecond: 2e9 };
  const [first] = planned(clusterOf([{ id: 'a', ...fast }])).islands;
  invariant(first, 'an island');
  // A step takes it 12 s and its part of a meeting 55: where others wait 5 s for it, 10 s of a round of 60 are left.
  const flopsPerSecond = (2e9 * first.predicted.stepSeconds) / 12;
  const slow = { ...fast, id: 'b', flopsPerSecond, downloadBytesPerSecond: ((17 / 16) * ELEMENTS) / 55 };
  const found = planned(clusterOf([...crowd(39, fast, (240 / 4096) * (ELEMENTS / 5)), slow]));
  expect(found.predicted.owners).not.toEqual([]);
  expect(found.idle.map(({ peer }) => String(peer))).toContain('b');
});

test('who costs the others more in their meetings than it does is left out', () => {
  const fast = { memoryBytes: ELEMENTS * 60, flopsPerSecond: 2e9 };
  // Its packets take 5 s, beside a round of 60.
  const donors = crowd(39, fast, (240 / 4096) * (ELEMENTS / 5));
  const found = planned(clusterOf(donors));
  expect(found.predicted.owners).not.toEqual([]);
  expect(found.idle.map(({ peer }) => String(peer))).toEqual(['c0']);
  const without = planned(clusterOf(donors.slice(1)));
  expect(found.predicted.tokensPerSecond).toBeCloseTo(without.predicted.tokensPerSecond, -1);
});

describe('a meeting', () => {
  const donors = (uploads: readonly number[]) =>
    clusterCosts(
      problemOf(
        clusterOf(
          uploads.map((uploadBytesPerSecond, i) => ({
            id: `p${i}`,
            memoryBytes: 1e9,
            flopsPerSecond: 1e9,
            uploadBytesPerSecond,
          })),
        ),
      ),
    );
  const parts = [0, 1].map((place) => ({ place, primary: ELEMENTS, held: ELEMENTS, free: 1e9 }));
  const DENSE = { ...ASKED, exchange: 'f32', publish: 'f32' } as const;

  test('takes as long as its owners take to send all of it', () => {
    // Two packets of the model each, and half of the model to each of two: 12 bytes an element.
    const even = meetingOf(donors([1e6, 1e6]), DENSE, parts);
    expect(even?.sendingSeconds).toBeCloseTo((12 * ELEMENTS) / 1e6, 6);
    expect(even?.shares).toEqual([0.5, 0.5]);
    // What the slower one's packets leave over of its line is half of what publishing takes it: (2T − 8E) + (T − 8E) = 8E.
    const uneven = meetingOf(donors([2e6, 1e6]), DENSE, parts);
    expect(uneven?.sendingSeconds).toBeCloseTo((8 * ELEMENTS) / 1e6, 6);
    expect(uneven?.shares[0]).toBeCloseTo(1, 6);
    expect(uneven?.shares[1]).toBeCloseTo(0, 6);
  });

  test('nobody owns what it has no room for', () => {
    const of = (free: readonly number[]) =>
      meetingOf(
        donors([1e6, 1e6, 1e6]),
        ASKED,
        free.map((bytes, place) => ({ place, primary: ELEMENTS, held: ELEMENTS, free: bytes })),
      );
    expect(of([0, 1e9, 1e9])?.shares).toEqual([0, 0.5, 0.5]);
    // Each is the owner of it or the copy of it: 12 bytes a parameter.
    expect(of([0, 12 * ELEMENTS, 12 * ELEMENTS])?.shares).toEqual([0, 0.5, 0.5]);
    expect(of([0, 12 * ELEMENTS, 11 * ELEMENTS])).toBeNull();
  });
});

/** All ways to put these into groups. */
function partitions(items: readonly number[]): number[][][] {
  const [first, ...rest] = items;
  if (first === undefined) return [[]];
  return partitions(rest).flatMap((groups) => [
    [[first], ...groups],
    ...groups.map((_, index) => groups.map((group, i) => (i === index ? [first, ...group] : group))),
  ]);
}

const golden = (name: string): unknown =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`../../e2e/golden/homes/${name}.json`, import.meta.url)), 'utf8'));

test.runIf(IS_LONG).each(['125m', '1b'] as const)(
  'two hundred homes: %s',
  (name) => {
    const cluster = parseCluster(golden('cluster'), 'cluster.json');
    const parsed = parsePlannedRun(golden(name), name);
    invariant(cluster.ok && parsed.ok && parsed.value.islands, 'golden files');
    const { run, islands } = parsed.value;
    const model = modelFromConfig(run.model);
    invariant(model.ok, 'a model');
    const found = planIslands({ model: model.value, batch: batchOf(run), cluster: cluster.value }, islands);
    invariant(found.ok, 'a plan');
    const least = { '125m': 150_000, '1b': 5_000 }[name];
    expect(found.value.predicted.tokensPerSecond).toBeGreaterThan(least);
    // Everyone who has room for the whole model is used.
    const elements = totalOf(model.value.blocks, (block) => block.elements);
    const idle = new Set(found.value.idle.map(({ peer }) => String(peer)));
    const roomy = cluster.value.peers.filter(({ memoryBytes }) => memoryBytes > 27 * elements);
    if (name === '125m') expect(roomy.length).toBeGreaterThan(60);
    expect(roomy.filter(({ id }) => idle.has(id))).toEqual([]);
  },
  // Twenty seconds of a core that other tests may have: only a hang is a fault.
  600_000,
);

describe('what a checkpoint of islands takes', () => {
  const part = (place: number, primary: number): Part => ({ place, primary, held: primary, free: 0 });

  it('the island that has a checkpoint uploaded soonest saves it, and owners send it what it lacks', () => {
    const peers = [
      { upload: 100, download: 1_000 },
      { upload: 100, download: 40 },
      { upload: 1_000, download: 1_000 },
    ];
    const costs = { model: { blocks: [{ elements: 1_000 }] }, peers };
    const groups = [[part(0, 1_000)], [part(1, 500), part(2, 500)]];
    // Shared value, velocity and what was published: 12 bytes an element. One uploads 12,000 at 100 a second, of two each half.
    const alone = islandSave(costs, { publish: 'int8' }, groups, groups.flat(), []);
    expect(alone).toEqual({ group: 1, uploadSeconds: 60, bytes: 12_000, meetingSeconds: 0 });
    // 8 bytes an element: the owner of all sends them for 80 s, who has 500 receives them at 40 a second for 100.
    const owned = islandSave(costs, { publish: 'int8' }, groups, groups.flat(), [1, 0, 0]);
    expect(owned.meetingSeconds).toBe(100);
    const [{ text } = { text: '' }] = savingWords(owned, 25);
    expect(text).toMatch(/^Checkpoints are saved every 3 rounds at most: island 2 uploads .* 60 s.*takes 100 s more/);
    expect(savingWords(alone, 60)[0]?.text).toMatch(/^Checkpoints can be saved at every meeting: island 2 uploads/);
    // Over a line without a limit.
    expect(savingWords({ ...alone, uploadSeconds: 0 }, 60)[0]?.text).toBe('Checkpoints can be saved at every meeting.');
    expect(savingWords({ ...alone, uploadSeconds: 86_400 * 30 }, 60)[0]?.text).toContain('in 30 days');
    expect(islandSave(costs, { publish: 'f32' }, groups, groups.flat(), []).uploadSeconds).toBe(40);
  });
});
