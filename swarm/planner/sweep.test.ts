import { expect, test } from 'vitest';
import { type Cluster, parseCluster } from './cluster.ts';
import { parseSweep, sweep } from './sweep.ts';

const parsed = parseCluster(
  {
    peers: [
      { id: 'a', memoryBytes: 8, flopsPerSecond: 4, uploadBytesPerSecond: 5, region: 'eu' },
      { id: 'b', memoryBytes: 8, flopsPerSecond: 4, region: 'eu' },
    ],
    links: {
      default: { latencySeconds: 1, bytesPerSecond: 10, windowBytes: 3 },
      regions: [{ between: ['eu', 'eu'], bytesPerSecond: 20 }],
      pairs: [{ between: ['a', 'b'], bytesPerSecond: 40 }],
    },
  },
  'it',
);
if (!parsed.ok) throw new Error(parsed.reason);
const CLUSTER = parsed.value;

/** All of it in one number each. */
const facts = ({ peers: [first], links }: Cluster) => ({
  compute: (first?.flopsPerSecond ?? 0) / 4,
  links:
    ((links.default.bytesPerSecond ?? 0) / 10) *
    ((links.default.windowBytes ?? 0) / 3) *
    ((first?.uploadBytesPerSecond ?? 0) / 5),
  memory: (first?.memoryBytes ?? 0) / 8,
  sessions: (first?.meanSessionSeconds ?? 3600) / 3600,
});

test('what alone doubled helps most: by a formula of each', () => {
  const axes = parseSweep('flopsPerSecond x1..x8; memoryBytes x0.5..x4');
  if (!axes.ok) throw new Error(axes.reason);
  // Doubling a part saves half of its term, or seven eighths of the links', whose rates and windows all double.
  const seconds = (cluster: Cluster): number => {
    const { compute, links, memory, sessions } = facts(cluster);
    return 4 / compute + 0.5 / links + 2 / memory + 0.25 / sessions;
  };
  const predict = (cluster: Cluster) => {
    const took = seconds(cluster);
    return { tokensPerSecond: 1 / took, seconds: took, objective: 1 / took };
  };
  const swept = sweep(CLUSTER, axes.value, predict);
  if (!swept.ok) throw new Error(swept.reason);
  expect(swept.value.cells).toHaveLength(16);
  for (const { at: place, seconds: took, limit } of swept.value.cells) {
    const [compute = 0, memory = 0] = place;
    expect(took).toBeCloseTo(4 / compute + 0.5 + 2 / memory + 0.25, 12);
    const saved = { compute: 2 / compute, links: 0.5 * (7 / 8), memory: 1 / memory, sessions: 0.125 };
    const best = Math.max(...Object.values(saved));
    expect(saved[limit], place.join()).toBe(best);
  }
  expect(new Set(swept.value.cells.map(({ limit }) => limit))).toEqual(new Set(['compute', 'memory', 'links']));
});

test('peers are the file’s in turn, then copies, between which the default link is', () => {
  const drawn: Cluster[] = [];
  const axes = parseSweep('peers 1..4');
  if (!axes.ok) throw new Error(axes.reason);
  sweep(CLUSTER, axes.value, (cluster) => {
    drawn.push(cluster);
    return null;
  });
  // The cell itself and four doubled ones each.
  const whole = drawn[15];
  expect(whole?.peers.map(({ id }) => id)).toEqual(['a', 'b', 'a-2', 'b-2']);
  expect(whole?.links.pairs).toEqual([
    { between: ['a', 'b'], bytesPerSecond: 40 },
    { between: ['a', 'a-2'] },
    { between: ['b', 'a-2'], bytesPerSecond: 40 },
    { between: ['a', 'b-2'], bytesPerSecond: 40 },
    { between: ['b', 'b-2'] },
    { between: ['a-2', 'b-2'] },
  ]);
  expect(drawn[0]?.links.pairs).toEqual([]);
});
