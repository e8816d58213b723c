import { describe, expect, test } from 'vitest';
import { arrayOf, at, type Range, seededRandom } from '../base.ts';
import { type IslandPlanes, type MeetingSettings, meet, type SharedPlanes } from './outer.ts';

/** Two tensors, of which the first one has a run of four elements and one of three. */
const TENSORS: readonly Range[] = [
  [0, 7],
  [7, 10],
];
const FIRST = [1, 2, 3, 4, 5, 6, 7, 10, 20, 30];
/** What each island's values are below what it began with, in two rounds, and how many steps it did. */
const ROUNDS = [
  {
    steps: [3, 1, 0],
    deltas: [
      [1, -0.5, 0, 2, 0, 0, 0, 1, 0, -1],
      [-0.5, 0, 1, -0.25, 2, 0, -1, 0, 0, 0],
      [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    ],
  },
  {
    steps: [2, 2, 4],
    deltas: [
      [0.5, -0.25, 0, 1, 0, 0, -2, 0.125, 0, 0.5],
      [0, 0, 0.75, -0.5, 0.25, 0, 0, 0, 0, -1],
      [1, 1, 1, 1, -2, -2, -2, 0, 0, 0.25],
    ],
  },
];

interface Case {
  readonly name: string;
  readonly settings: MeetingSettings;
  /** After both rounds. */
  readonly shared: readonly number[];
  readonly velocity: readonly number[];
  readonly published?: readonly number[];
  readonly leftOver?: readonly (readonly number[])[];
}

/**
 * The outcomes were worked out in float64 by a script in Python that follows CONTRACT's trainer (numpy's stable sort,
 * frexp for the scale). With momentum 0 and exchange f32 the first one is a plain mean, done by hand. All of them are
 * sums of few powers of two, so float32 has them exactly.
 */
const CASES: readonly Case[] = [
  {
    name: 'plain mean',
    settings: { outer: { learningRate: 1, momentum: 0 }, exchange: 'f32', publish: 'f32' },
    shared: [-0.25, 1.9375, 2.0625, 1.9375, 5.4375, 7, 8.75, 9.21875, 20, 30.75],
    velocity: [0.625, 0.4375, 0.6875, 0.625, -0.9375, -1, -1.5, 0.03125, 0, 0],
  },
  {
    name: 'momentum',
    settings: { outer: { learningRate: 0.5, momentum: 0.5 }, exchange: 'f32', publish: 'f32' },
    shared: [-0.015625, 2, 2.265625, 2.2734375, 5.265625, 6.75, 8.34375, 9.3203125, 20, 30.65625],
    velocity: [0.9375, 0.25, 0.8125, 1.34375, -0.6875, -1, -1.625, 0.40625, 0, -0.375],
  },
  {
    name: 'sparse with feedback',
    settings: {
      outer: { learningRate: 1, momentum: 0 },
      exchange: { top: 2, chunk: 4, feedback: 0.5 },
      publish: 'f32',
    },
    shared: [-0.25, 1.5, 2.5625, 2.40625, 5.4375, 7, 7.75, 9.21875, 20, 30.75],
    velocity: [0.625, 0.5, 0.1875, 0.09375, -0.9375, -1, -0.5, 0.03125, 0, 0],
    leftOver: [
      [0, -0.5, 0, 0, 0, 0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      [0, 0, 1, 1, 0, 0, -2, 0, 0, 0],
    ],
  },
  {
    name: 'sparse, published as int8',
    settings: {
      outer: { learningRate: 1, momentum: 0.5 },
      exchange: { top: 2, chunk: 4, feedback: 0.5 },
      publish: 'int8',
    },
    shared: [-1.03125, 1.25, 2.28125, 1.234375, 5.53125, 7.5, 8.1875, 8.640625, 20, 31.3125],
    velocity: [0.9375, 0.5, 0.3125, 0.84375, -0.6875, -1, -0.625, 0.40625, 0, -0.375],
    published: [
      -1.029296875, 1.2509765625, 2.2861328125, 1.2333984375, 5.52734375, 7.498046875, 8.18359375, 8.640625, 20,
      31.3125,
    ],
    leftOver: [
      [0, -0.5, 0, 0, 0, 0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      [0, 0, 1, 1, 0, 0, -2, 0, 0, 0],
    ],
  },
];

interface Planes {
  readonly shared: SharedPlanes;
  readonly islands: readonly IslandPlanes[];
}

function planes({ exchange, publish }: MeetingSettings, first: ArrayLike<number>, count: number): Planes {
  const zeros = () => new Float32Array(first.length);
  return {
    shared: {
      shared: Float32Array.from(first),
      velocity: zeros(),
      published: publish === 'int8' ? Float32Array.from(first) : null,
    },
    islands: arrayOf(count, () => ({ own: zeros(), leftOver: exchange === 'f32' ? null : zeros() })),
  };
}

function takeSteps({ shared, islands }: Planes, deltas: readonly ArrayLike<number>[]): void {
  const base = shared.published ?? shared.shared;
  for (const [index, { own }] of islands.entries()) own.set(base.map((value, i) => value - at(at(deltas, index), i)));
}

describe('meet', () => {
  test.each(CASES)('[IS3] [IS4] [IS5] $name', ({ settings, shared, velocity, published, leftOver }) => {
    const made = planes(settings, FIRST, 3);
    for (const { steps, deltas } of ROUNDS) {
      takeSteps(made, deltas);
      Array.from(meet(settings, TENSORS, made.shared, made.islands, steps));
    }
    expect([...made.shared.shared]).toEqual(shared);
    expect([...made.shared.velocity]).toEqual(velocity);
    expect(made.shared.published && [...made.shared.published]).toEqual(published ?? null);
    const rest = made.islands.map((island) => island.leftOver && [...island.leftOver]);
    expect(rest).toEqual(leftOver ?? [null, null, null]);
  });

  test.each<MeetingSettings>([
    { outer: { learningRate: 0.7, momentum: 0.9 }, exchange: 'f32', publish: 'f32' },
    { outer: { learningRate: 1, momentum: 0.5 }, exchange: { top: 6, chunk: 128, feedback: 0.95 }, publish: 'int8' },
  ])('[PL22] parts of a tensor have the bits that the whole has: %j', (settings) => {
    const random = seededRandom(7);
    const values = (size: number) => Float32Array.from({ length: 1000 }, () => (random() - 0.5) * size);
    const first = values(1);
    const [whole, parts] = [planes(settings, first, 3), planes(settings, first, 3)];
    for (let round = 0; round < 3; round++) {
      const deltas = [values(0.1), values(0.01), values(0.03)];
      takeSteps(whole, deltas);
      takeSteps(parts, deltas);
      Array.from(meet(settings, [[0, 1000]], whole.shared, whole.islands, [5, 1, 7]));
      for (const [from, to] of [
        [640, 1000],
        [0, 256],
        [256, 640],
      ]) {
        const cut = (plane: Float32Array) => plane.subarray(from, to);
        const { shared, velocity, published } = parts.shared;
        const ofPart = { shared: cut(shared), velocity: cut(velocity), published: published && cut(published) };
        const own = parts.islands.map((one) => ({ own: cut(one.own), leftOver: one.leftOver && cut(one.leftOver) }));
        Array.from(meet(settings, [[0, cut(shared).length]], ofPart, own, [5, 1, 7]));
      }
    }
    expect(parts).toEqual(whole);
  });

  test('[IS22] stops after pieces of a run at most, and of as much to publish', () => {
    const settings = {
      outer: { learningRate: 1, momentum: 0.5 },
      ...{ exchange: { top: 6, chunk: 4096, feedback: 0.95 }, publish: 'int8' as const },
    };
    const made = planes(settings, new Float32Array(100_000), 2);
    // 24 whole runs and one of 1,696 elements; 65,536 elements to publish, then what is left.
    const wanted = [...arrayOf(24, () => 8192), 3392, 65_536, 34_464];
    expect([...meet(settings, [[0, 100_000]], made.shared, made.islands, [1, 1])]).toEqual(wanted);
  });
});
