/**
 * Which `train.islands.outer` and `feedback` learn best: the same number of steps of a small model of the bundled book,
 * taken apart by few and many islands in short and long rounds, with every exchange; held-out loss, over seeds.
 */
import { arrayOf, rounded, total } from '../../../swarm/base.ts';
import type { MeetingSettings } from '../../../swarm/islands/outer.ts';
import { turnAt } from '../../../swarm/islands/rounds.ts';
import { Trainer } from '../../../swarm/reference/trainer.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { aligned } from '../../commands/aligned.ts';
import { BlockedProducts } from './blockedProducts.ts';
import { type BatchSize, type Book, batches, heldOutLoss } from './book.ts';
import { firstValues, flatState } from './flatState.ts';
import { IslandTraining } from './islandTraining.ts';
import { bookModel, trainOf } from './runs.ts';

const MODEL = bookModel({ layers: 2, width: 48, heads: 3, positions: 32 });
const SIZE: BatchSize = { samples: 2, positions: 32 };
const STEPS = 2400;
const ISLANDS = [4, 16];
const INNER_STEPS = [5, 25];
const SPARSE = { top: 64, chunk: 4096 };

const OUTER = { plain: [1, 0], careful: [1, 0.5], bold: [0.7, 0.9] } as const;

/** Rate and momentum of the outer step; feedback: sparse, null: dense. */
interface Setting {
  readonly outer: MeetingSettings['outer'];
  readonly feedback: number | null;
}

const setting = ([learningRate, momentum]: readonly [number, number], feedback: number | null): Setting => ({
  outer: { learningRate, momentum },
  feedback,
});

const SETTINGS: readonly Setting[] = [
  ...Object.values(OUTER).map((outer) => setting(outer, null)),
  ...Object.values(OUTER).map((outer) => setting(outer, 0.95)),
  ...[0.8, 1].map((feedback) => setting(OUTER.careful, feedback)),
];

interface DefaultsRow extends Setting {
  readonly islands: number;
  readonly innerSteps: number;
  /** Held out, of each seed. */
  readonly losses: readonly number[];
}

/** Seed after seed, so that what is found stands early. `said`: each loss as it is found. */
export function learnDefaults(
  book: Book,
  { seeds, learningRate }: { readonly seeds: number; readonly learningRate: number },
  said: (words: string) => void,
): readonly DefaultsRow[] {
  const rows = ISLANDS.flatMap((islands) =>
    INNER_STEPS.flatMap((innerSteps) =>
      SETTINGS.map((own) => ({ ...own, islands, innerSteps, losses: [] as number[] })),
    ),
  );
  const train = trainOf({ steps: STEPS, learningRate, ...SIZE });
  const trainer = new Trainer(MODEL, train, new BlockedProducts());
  for (let seed = 1; seed <= seeds; seed++) {
    said(`seed ${seed}, no islands: ${rounded(alone(trainer, book, seed), 5)}`);
    for (const row of rows) {
      row.losses.push(trained(trainer, book, train, row, seed));
      said(`seed ${seed}, ${rowWords(row).join(', ')}: ${rounded(row.losses.at(-1) ?? 0, 5)}`);
    }
  }
  return rows;
}

/** The same steps one after the other. */
function alone(trainer: Trainer, book: Book, seed: number): number {
  const state = flatState(MODEL, firstValues(MODEL, seed));
  const batch = batches(book, SIZE, seed);
  for (let number = 0; number < STEPS; number++) trainer.step(state, batch(number), number);
  return heldOutLoss(trainer, state.values, book, SIZE);
}

function trained(
  trainer: Trainer,
  book: Book,
  { steps }: Pick<Train, 'steps'>,
  { islands: count, innerSteps, outer, feedback }: DefaultsRow,
  seed: number,
): number {
  const exchange = feedback === null ? 'f32' : { ...SPARSE, feedback };
  const settings: MeetingSettings = { outer, exchange, publish: 'f32' };
  const rounds = { steps, islands: { count, innerSteps, ...settings, overlap: false as const } };
  const training = new IslandTraining(trainer, settings, count, firstValues(MODEL, seed), batches(book, SIZE, seed));
  let lists: number[][] = arrayOf(count, () => []);
  for (let step = 0; step < steps; step++) {
    const { number, island, endsRound } = turnAt(rounds, step);
    lists[island]?.push(number);
    if (!endsRound) continue;
    training.round(lists);
    lists = arrayOf(count, () => []);
  }
  return heldOutLoss(trainer, training.planes.shared, book, SIZE);
}

const rowWords = ({ islands, innerSteps, outer, feedback }: DefaultsRow): string[] => [
  String(islands),
  String(innerSteps),
  feedback === null ? 'f32' : `sparse, feedback ${feedback}`,
  `(${outer.learningRate}, ${outer.momentum})`,
];

export function defaultsTable(rows: readonly DefaultsRow[]): string {
  const cells = rows.map((row) => {
    const mean = total(row.losses) / row.losses.length;
    return [...rowWords(row), mean.toFixed(3), row.losses.map((loss) => loss.toFixed(3)).join(' ')];
  });
  return aligned(
    [['islands', 'steps a round', 'exchange', 'outer', 'held-out loss', 'of each seed'], ...cells],
    '  ',
  ).join('\n');
}
