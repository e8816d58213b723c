/**
 * Where the fish of a run swim: each donor has a place in the shape of one big fish, and keeps it while it is here. Pure:
 * the same donors in the same order have the same places.
 */
import { seededRandom } from './base.ts';

/** One fish, nose to the right, 20 long, around the origin. */
export const FISH = 'M10 0C5-6-3-6-7-1L-10-4V4L-7 1C-3 6 5 6 10 0Z';

export interface Place {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

/** Half the height of a big fish `x` from its tail (-1) to its nose (1): a fork, a waist, a body. */
function outline(x: number): number {
  if (x < -0.72) return 0.14 + (-0.72 - x) * 1.9;
  const body = Math.sqrt(Math.max(0, 1 - ((x - 0.22) / 0.78) ** 2));
  return 0.1 + 0.68 * body * Math.min(1, 0.3 + (x + 0.72) * 1.5);
}

/** Rows and columns on either side of the middle: a shoal, and one for crowds. */
const GRIDS = [
  { rows: 5, columns: 9, size: 1 },
  { rows: 10, columns: 17, size: 0.56 },
] as const;
const [HALF_WIDTH, HALF_HEIGHT] = [190, 77.5];

/** So far apart that neither two large fish nor the ring around one's own and its neighbour meet, also in a stroke. */
const APART = { x: 46, y: 34 };
const areApart = (one: Place, other: Place): boolean =>
  Math.hypot((one.x - other.x) / APART.x, (one.y - other.y) / APART.y) >= 1;

/** Row by row, a little out of line; those far apart come first, then those between them, each from the middle on. */
function placesOn({ rows, columns, size }: (typeof GRIDS)[number]): Place[] {
  const random = seededRandom(7);
  const places: Place[] = [];
  for (let row = -rows; row <= rows; row++) {
    for (let column = -columns; column <= columns; column++) {
      const x = (column + (row & 1 ? 0.5 : 0)) / columns;
      if (Math.abs(x) > 1 || (Math.abs(row) / rows) * (5 / 7) > outline(x)) continue;
      places.push({
        x: x * HALF_WIDTH + size * (random() * 7 - 3.5),
        y: (row / rows) * HALF_HEIGHT + size * (random() * 5 - 2.5),
        scale: size * (0.55 + 0.35 * random()),
      });
    }
  }
  const fromMiddle = ({ x, y }: Place): number => Math.hypot((x - 30) / 2, y);
  const apart: Place[] = [];
  const between: Place[] = [];
  for (const place of places.toSorted((one, other) => fromMiddle(one) - fromMiddle(other)))
    (apart.every((other) => areApart(place, other)) ? apart : between).push(place);
  return [...apart, ...between];
}

const [SHOAL, CROWD] = GRIDS.map(placesOn) as [Place[], Place[]];

/** For so many donors; past the last place nobody more is drawn. */
export const placesFor = (donors: number): readonly Place[] => (donors > SHOAL.length ? CROWD : SHOAL);

/** Who waits, at the water's edge behind the big fish. */
export const EDGE_PLACES: readonly Place[] = Array.from({ length: 27 }, (_, at) => ({
  x: -228 - 17 * Math.floor(at / 9),
  y: ((at % 9) - 4) * 17,
  scale: 0.6,
}));

export type Placed = ReadonlyMap<string, number>;

/** Whoever was here keeps its place, whoever is gone frees it, and whoever comes takes the first free one. */
export function nextPlaces(before: Placed, ids: readonly string[], most: number): Placed {
  const kept = new Map(
    ids.flatMap((id) => {
      const place = before.get(id);
      return place !== undefined && place < most ? [[id, place] as const] : [];
    }),
  );
  const taken = new Set(kept.values());
  let free = 0;
  for (const id of ids) {
    if (kept.has(id)) continue;
    while (taken.has(free)) free++;
    if (free >= most) break;
    kept.set(id, free);
    taken.add(free);
  }
  return kept;
}

/** How long a stroke lasts that a committed step makes, and how far it carries. */
export const STROKE_MS = 1_250;
const STROKE_LENGTH = 9;
/** A newcomer swims in from the edge in so long. */
export const ARRIVAL_MS = 1_750;
/** Fish swim in so many schools, each a little behind the one before. */
export const SCHOOLS = 3;

/** How far ahead of its place a school is, so long after a step: forward quickly, back slowly, and at rest at both ends. */
export function strokeAt(school: number, sinceMs: number): number {
  const share = (sinceMs - school * 125) / (STROKE_MS - (SCHOOLS - 1) * 125);
  if (share <= 0 || share >= 1) return 0;
  return STROKE_LENGTH * Math.sin(Math.PI * share ** 0.6) ** 2;
}

/** How far behind its place a newcomer is. */
export function arrivalAt(sinceMs: number): number {
  const left = 1 - Math.min(1, Math.max(0, sinceMs / ARRIVAL_MS));
  return -260 * left ** 2;
}
