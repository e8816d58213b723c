import { describe, expect, it } from 'vitest';
import { arrayOf, at, invariant, type Random, seededRandom, total, totalOf } from '../base.ts';
import { stageBuffers } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Gathered, type Plan, type PlanStage, planSchema, problems } from '../plan/plan.ts';
import { secondsText } from '../quantityText.ts';
import { formatAction } from '../schedule/action.ts';
import { worldwideProblem } from '../testing/worldwide.ts';
import { makespanSeconds } from '../timeline/timeline.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { type Cluster, type ClusterPeer, parseCluster } from './cluster.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { memoryOf, planOf } from './draft.ts';
import { forecast, predictedStep } from './forecast.ts';
import { gatherSeconds, type Piece, passSeconds } from './gathering.ts';
import type { Draft } from './layout.ts';
import { reasonText } from './reason.ts';

function gpt2(layers: number, width: number, vocabulary: number, positions = 32) {
  const sizes = { n_layer: layers, n_head: 4, n_embd: width, n_positions: positions, vocab_size: vocabulary };
  const found = modelFromConfig({ model_type: 'gpt2', ...sizes });
  invariant(found.ok, 'a model');
  return found.value;
}

const model = gpt2(4, 256, 256);
const batch = { samples: 8, sequence: 32 };
const LAYER = model.blocks.find(({ name }) => name === 'layer.0')?.elements ?? 0;
const EMBEDDING = model.blocks.find(({ name }) => name === 'embedding')?.elements ?? 0;
const TABLE = 256 * 256;
const FAST = { latencySeconds: 0.0005, bytesPerSecond: 1e9 };

function clusterOf(peers: readonly Partial<ClusterPeer>[], link: object = FAST): Cluster {
  const named = peers.map((peer, index) => ({ id: `p${index}`, memoryBytes: 1e12, flopsPerSecond: 1e9, ...peer }));
  const found = parseCluster({ peers: named, links: { default: link } }, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const alike = (count: number, memoryBytes = 1e12) => arrayOf(count, () => ({ memoryBytes }));
const problemOf = (cluster: Cluster): ClusterProblem => ({ model, batch, cluster });

function drafted(costs: ClusterCosts, draft: Partial<Draft> & Pick<Draft, 'groups' | 'layers'>): Plan {
  const found = planOf(costs, { microBatches: costs.batch.samples, schedule: '1f1b', ...draft });
  invariant(found?.missingBytes === 0, 'a draft that fits');
  return found.plan;
}

function planned(problem: ClusterProblem, work = 4_000): ClusterPlan {
  const found = planCluster(problem, (progress) => progress.work < work);
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const LAYERED = { schedule: 'gpipe', layered: true } as const;

const gathering = ({ plan }: ClusterPlan) => plan.stages.flatMap(({ gathered = [] }) => gathered);

describe('memory', () => {
  it.each([
    [2, 1],
    [4, 1],
    [4, 2],
    [8, 2],
  ] as const)('ZeRO: %i peers keep 16 Ψ/N bytes each, and %i layers of 8 bytes an element whole', (count, gathered) => {
    const costs = clusterCosts(problemOf(clusterOf(alike(count))));
    const places = arrayOf(count, (place) => place);
    const plan = drafted(costs, { groups: [places], layers: [4], gathered: [gathered] });
    expect(problems(model, batch, plan)).toEqual([]);
    const size = { layers: [0, 4], samples: 1, sequence: 32, slots: 1 } as const;
    const activations = totalOf(
      stageBuffers(model, size).filter(({ name }) => !/^(values|gradients)\//.test(name)),
      ({ bytes }) => bytes,
    );
    const psi = totalOf(model.blocks, ({ elements }) => elements);
    for (const bytes of memoryOf(costs, plan).values()) {
      const own = bytes - activations - 8 * gathered * LAYER;
      // Gradients on their way in, and the way out of the largest shard.
      const beside = ((4 + 12) * LAYER) / count;
      expect(own / ((16 * psi) / count + beside)).toBeCloseTo(1, 2);
    }
  });

  it('takes no more than it has, to the byte as it is counted, with shares as uneven as the room is', () => {
    const memory = [30e6, 45e6, 60e6, 45e6];
    const problem = problemOf(clusterOf(memory.map((memoryBytes) => ({ memoryBytes }))));
    const costs = clusterCosts(problem);
    const plan = drafted(costs, { groups: [[0, 1, 2, 3]], layers: [4], gathered: [1] });
    const kept = memory.map((_, index) =>
      plan.state.reduce(
        (sum, { shards }) =>
          shards.reduce((all, { peer, range }) => all + (peer === `p${index}` ? range[1] - range[0] : 0), sum),
        0,
      ),
    );
    // Who has no room for an even share computes all the same.
    const even = total(kept) / 4;
    expect(kept[0]).toBeLessThan(0.8 * even);
    expect(kept[1]).toBeGreaterThan(even);
    expect(plan.stages[0]?.members).toHaveLength(4);
    for (const [index, [, bytes]] of [...memoryOf(costs, plan)].entries())
      expect(bytes, `p${index}`).toBeLessThanOrEqual(memory[index] ?? 0);
  });
});

describe('what is sent', () => {
  const sentBy = (count: number, microBatches: number, gathered: Gathered | 0, how: Partial<Draft> = {}): number[] => {
    const costs = clusterCosts(problemOf(clusterOf(alike(count))));
    const places = arrayOf(count, (place) => place);
    const plan = drafted(costs, { groups: [places], layers: [4], microBatches, gathered: [gathered], ...how });
    const predicted = [...forecast(costs, plan).peers.values()].map(({ sentBytes }) => sentBytes);
    // What runs send is this, to the byte.
    const { slice, values } = stepTraffic(model, plan, { sequence: batch.sequence, wire: 'f32' });
    expect(total(predicted)).toBeCloseTo(slice + values, 3);
    return predicted;
  };
  const HEAD = 2 * 256;

  it.each([2, 4, 8])(
    '[PL42] ZeRO: %i peers send 3 Ψ (N − 1)/N of the layers a micro-batch, not 2 Ψ a step',
    (count) => {
      // Of the embedding and the head 2: their backward needs no values again. The tied table comes for the head once more.
      const each = 3 * 4 * LAYER + 2 * (EMBEDDING + HEAD) + 2 * TABLE;
      const part = (4 * (count - 1)) / count;
      const all = (bytes: readonly number[]): number => total(bytes) / count;
      expect(all(sentBy(count, count, 2))).toBeCloseTo(part * each, 3);
      expect(all(sentBy(count, 8, 2))).toBeCloseTo((8 / count) * part * each, 3);
      expect(all(sentBy(count, 8, 0))).toBeCloseTo(part * 2 * (4 * LAYER + EMBEDDING + HEAD), 3);
      // Layered (Cephalo): so much a step, however many micro-batches it has.
      for (const microBatches of [count, 8])
        expect(all(sentBy(count, microBatches, 2, LAYERED))).toBeCloseTo(part * each, 3);
    },
  );
});

describe('time', () => {
  const deep = gpt2(8, 64, 64);
  const layer = deep.blocks.find(({ name }) => name === 'layer.0')?.elements ?? 0;
  const measured = { forwardSecondsPerLayer: [1], backwardSecondsPerLayer: [2] };
  /** A pipeline of three, whose second stage of six layers is gathered by two peers; seconds of its first forward and backward. */
  const seconds = (gathered: Gathered, gatherSeconds: number): [number, number] => {
    const link = { latencySeconds: 0, bytesPerSecond: (4 * layer) / 2 / gatherSeconds };
    const cluster = clusterOf(
      arrayOf(4, () => ({ measured })),
      link,
    );
    const costs = clusterCosts({ model: deep, batch: { samples: 4, sequence: 32 }, cluster });
    const draft = { groups: [[0], [1, 2], [3]], layers: [1, 6, 1], gathered: [0, gathered, 0] as const };
    const timeline = predictedStep(costs, drafted(costs, draft)).timeline;
    const span = (text: string): number => {
      const found = timeline.find(({ action }) => formatAction(action) === text);
      return found ? found.endSeconds - found.startSeconds : 0;
    };
    return [span('1F0'), span('1B0')];
  };

  it.each([0.01, 0.5, 0.9])(
    'one block at a time: a layer takes its gather of %f s, F; its gather, B, its reduce',
    (g) => {
      const [forward, backward] = seconds(1, g);
      expect(forward / (6 * (g + 1))).toBeCloseTo(1, 2);
      expect(backward / (6 * (g + 2 + g))).toBeCloseTo(1, 2);
    },
  );

  it.each([0.01, 0.5, 0.9])('two at a time: a gather of %f s hides behind the layer before, as in Cephalo', (g) => {
    const [forward, backward] = seconds(2, g);
    expect(forward / (g + 6)).toBeCloseTo(1, 2);
    expect(backward / (g + 6 * 2 + g)).toBeCloseTo(1, 2);
  });

  it.each([
    [1, 0.4],
    [2, 0.4],
    [2, 2.5],
  ] as const)(
    '[PL64] layered, %i at a time, a gather of %f s: as long as one micro-batch of all samples',
    (gathered, g) => {
      const link = { latencySeconds: 0, bytesPerSecond: (4 * layer) / 2 / g };
      const cluster = clusterOf([{ measured }, { measured }], link);
      const costs = clusterCosts({ model: deep, batch: { samples: 8, sequence: 32 }, cluster });
      const seconds = (microBatches: number, how: Partial<Draft>): number => {
        const plan = drafted(costs, { groups: [[0, 1]], layers: [8], gathered: [gathered], microBatches, ...how });
        return makespanSeconds(predictedStep(costs, plan).timeline);
      };
      const whole = seconds(2, {});
      for (const microBatches of [2, 4, 8]) expect(seconds(microBatches, LAYERED)).toBeCloseTo(whole, 6);
      expect(seconds(8, {})).toBeGreaterThan(whole + 3 * g);
    },
  );

  it('two at a time: what does not hide is waited for; never longer than one at a time, nor shorter than either', () => {
    const random = seededRandom(4);
    for (let round = 0; round < 200; round++) {
      const pieces = arrayOf(
        1 + Math.floor(6 * random()),
        (): Piece => ({ before: random(), compute: 2 * random(), after: random() }),
      );
      const sum = (of: (piece: Piece) => number): number => totalOf(pieces, (piece) => of(piece));
      const found = passSeconds(pieces, 2);
      expect(found).toBeLessThanOrEqual(passSeconds(pieces, 1) + 1e-9);
      expect(found).toBeGreaterThanOrEqual(
        Math.max(
          sum(({ compute }) => compute),
          sum(({ before, after }) => before + after),
        ) - 1e-9,
      );
    }
  });
});

describe('when it is chosen', () => {
  const tight = clusterOf(alike(3, 40e6));

  it('a cluster where nothing else fits has a plan that gathers its layers, and says so', () => {
    const without = planCluster({ ...problemOf(tight), without: 'gathering' }, ({ work }) => work < 8_000);
    expect(without).toMatchObject({ ok: false });
    const found = planned(problemOf(tight));
    expect(gathering(found)).not.toEqual([]);
    expect(problems(model, batch, found.plan)).toEqual([]);
    expect(planSchema.parse(JSON.parse(JSON.stringify(found.plan)))).toEqual(found.plan);
    const bytes = memoryOf(clusterCosts(problemOf(tight)), found.plan);
    for (const { peer, memoryBytes, memoryLimitBytes, busySeconds } of found.predicted.peers) {
      expect(memoryBytes).toBe(bytes.get(peer));
      expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
      expect(busySeconds).toBeLessThanOrEqual(found.predicted.stepSeconds * (1 + 1e-9));
    }
    expect(found.reasons.map(reasonText).join(' ')).toMatch(
      /Stage 1 gathers its layers.*for want of memory.*no plan without fits/,
    );
  });

  it('with room for whole layers nothing is gathered, however fast the links', () => {
    const roomy = problemOf(clusterOf(alike(3), { latencySeconds: 0, bytesPerSecond: 2e7 }));
    expect(planned(roomy).plan).toEqual(planned({ ...roomy, without: 'gathering' }).plan);
  });

  it('where another plan fits, one that gathers makes the step shorter; none is a hundredth longer with more memory', () => {
    let [seen, before] = [0, Infinity];
    for (const megabytes of [50, 57, 60]) {
      const problem = problemOf(clusterOf(alike(3, megabytes * 1e6)));
      const [one, other] = [
        planned(problem),
        planCluster({ ...problem, without: 'gathering' }, ({ work }) => work < 4_000),
      ];
      expect(one.predicted.stepSeconds).toBeLessThanOrEqual(1.01 * before);
      before = one.predicted.stepSeconds;
      if (gathering(one).length === 0 || !other.ok) continue;
      seen++;
      expect(one.predicted.stepSeconds).toBeLessThan(other.value.predicted.stepSeconds);
      expect(one.reasons.map(reasonText).join(' ')).toContain('the best plan without');
    }
    expect(seen).toBeGreaterThan(1);
  });

  it.each([
    // Seconds of a step: once a pass, with nothing gathered, and once a micro-batch.
    [5e7, 3.9, 4.14, 7.03],
    [2e7, 4.11, 4.17, 15.63],
  ])(
    '[PL64] a block comes once a pass where that is shorter than any other plan, over %f bytes a second',
    (rate, ...figures) => {
      const deep = { model: gpt2(4, 256, 256, 128), batch: { samples: 32, sequence: 128 } };
      const peers = alike(3, 56e6).map((peer) => ({ ...peer, flopsPerSecond: 1e10 }));
      const problem: ClusterProblem = { ...deep, cluster: clusterOf(peers, { ...FAST, bytesPerSecond: rate }) };
      const found = planned(problem);
      expect(problems(deep.model, deep.batch, found.plan)).toEqual([]);
      expect(found.plan).toMatchObject({ schedule: 'gpipe', stages: [{ gathered: 2, layered: true }] });
      expect(planSchema.parse(JSON.parse(JSON.stringify(found.plan)))).toEqual(found.plan);
      const [most, least] = [Math.max, Math.min].map((of) =>
        of(...(found.plan.stages[0]?.members ?? []).map(({ microBatches }) => microBatches.length)),
      ) as [number, number];
      expect(least).toBeGreaterThan(1);
      const costs = clusterCosts(problem);
      // A layer may take longer to come than a member works on a sample of it, and not than on all of its samples.
      const gather = gatherSeconds(costs, [0, 1, 2]);
      const pass = 1 / at(costs.speeds, 0);
      expect(gather > pass).toBe(rate === 2e7);
      expect(gather).toBeLessThan(least * pass);
      for (const { memoryBytes, memoryLimitBytes } of found.predicted.peers)
        expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
      const other = planCluster({ ...problem, without: 'gathering' }, ({ work }) => work < 4_000);
      invariant(other.ok, 'a plan without');
      const [{ layered: _, ...stage }] = found.plan.stages as [PlanStage];
      const each = forecast(costs, { ...found.plan, schedule: '1f1b', stages: [stage] }).stepSeconds;
      const steps = [found.predicted.stepSeconds, other.value.predicted.stepSeconds, each];
      for (const [place, figure] of figures.entries()) expect(at(steps, place) / figure).toBeCloseTo(1, 2);
      expect(found.reasons.map(reasonText).join(' ')).toContain(
        `It comes once for all ${most} micro-batches of a pass, forward and backward (layered accumulation), whose activations are all kept meanwhile: once for each of them, a step would take ${secondsText(each)}.`,
      );
      // Whoever plans anew begins with it.
      const again = planCluster({ ...problem, inForce: found.plan }, () => false);
      expect(again).toMatchObject({ ok: true, value: { plan: found.plan } });
    },
  );

  it('never over slow links, though nothing else fits: it is refused', () => {
    for (const slow of [
      { latencySeconds: 0.04, bytesPerSecond: 2.5e6 },
      { latencySeconds: 0.0005, bytesPerSecond: 4e6 },
      { latencySeconds: 1, bytesPerSecond: 1e9 },
    ])
      expect(planCluster(problemOf(clusterOf(alike(3, 40e6), slow)), () => false)).toMatchObject({
        ok: false,
        reason: expect.stringMatching(/of memory is missing/),
      });
  });

  it('never over slow links, though the plan in force does: it is not begun with', () => {
    const inForce = planned(problemOf(clusterOf(alike(3, 40e6))));
    expect(gathering(inForce)).not.toEqual([]);
    const slower = problemOf(clusterOf(alike(3, 40e6), { latencySeconds: 1, bytesPerSecond: 1e9 }));
    expect(planCluster({ ...slower, inForce: inForce.plan }, () => false).ok).toBe(false);
  });

  it('on random clusters only groups gather in which a layer comes in less time than it takes', () => {
    const [random, seen] = [seededRandom(11), { gathered: 0 }];
    for (let round = 0; round < 8; round++) {
      const cluster = squeezed(random);
      const found = planCluster(problemOf(cluster), ({ work }) => work < 1_500);
      if (!found.ok) continue;
      const costs = clusterCosts(problemOf(cluster));
      for (const { gathered, members } of found.value.plan.stages) {
        if (!gathered) continue;
        seen.gathered++;
        const places = members.map(({ peer }) => costs.placeOf(peer));
        const links = places.flatMap((a) => places.filter((b) => b !== a).map((b) => costs.linkAt(a, b)));
        const latency = Math.max(...links.map(({ latencySeconds }) => latencySeconds));
        const most = Math.max(...links.map(({ bytesPerSecond }) => bytesPerSecond ?? Infinity));
        const layerSeconds = Math.min(...places.map((place) => batch.samples / (costs.speeds[place] ?? 1)));
        const least = latency + (4 * LAYER * (places.length - 1)) / places.length / most;
        expect(least).toBeLessThanOrEqual(layerSeconds);
      }
    }
    expect(seen.gathered).toBeGreaterThan(0);
  });

  it('the same wherever peers stand, and no slower with faster links or a little more memory', () => {
    const peers = [38e6, 40e6, 41e6].map((memoryBytes, index) => ({
      ...{ id: `p${index}`, memoryBytes, flopsPerSecond: 1e9 * (1 + index / 4) },
    }));
    const stepOf = (link: object, more = 1, order = peers): number => {
      const cluster = clusterOf(
        order.map((peer) => ({ ...peer, memoryBytes: more * peer.memoryBytes })),
        link,
      );
      const found = planned(problemOf(cluster));
      expect(gathering(found)).not.toEqual([]);
      return found.predicted.stepSeconds;
    };
    const fast = stepOf(FAST);
    const stepAt = (bytesPerSecond: number): number => stepOf({ ...FAST, bytesPerSecond });
    const steps = [stepAt(5e7), stepAt(1e8), fast, stepAt(1e11)];
    expect(steps.toSorted((a, b) => b - a)).toEqual(steps);
    expect(stepOf(FAST, 1, peers.toReversed()) / fast).toBeCloseTo(1, 6);
    expect(stepOf(FAST, 1.01) / fast).toBeLessThanOrEqual(1 + 1e-9);
  });

  it('no group of the world-wide cluster gathers', () => {
    expect(gathering(planned(worldwideProblem(256), 2_000))).toEqual([]);
  });

  /** Peers with room for a layer and a half, on links that are fast for some of them. */
  function squeezed(random: Random): Cluster {
    const peers = arrayOf(3 + Math.floor(2 * random()), () => ({
      memoryBytes: Math.round(3.7e7 + 6e6 * random()),
      flopsPerSecond: 1e9 * (1 + random()),
    }));
    return clusterOf(peers, { latencySeconds: 0.001, bytesPerSecond: 10 ** (6 + 3 * random()) });
  }
});
