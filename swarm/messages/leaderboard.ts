/** Who gave a run how much, of those donors who chose to be named. */
import { z } from 'zod';

const tokens = z.number().min(0);
const entrySchema = z.object({ rank: z.int().min(1), name: z.string(), team: z.string(), tokens });

export const leaderboardSchema = z.object({
  run: z.string(),
  /** All that the run has committed, by whomever. */
  runTokens: tokens,
  /** The first ones. */
  donors: z.array(entrySchema),
  teams: z.array(z.object({ rank: z.int().min(1), team: z.string(), donors: z.int().min(1), tokens })),
  /** The donor that asked, wherever it stands; null where it has no name. */
  mine: entrySchema.nullable(),
});
/** What `/api/today` answers a donor: its place among those who trained today; null: it has not. */
export const todayPlaceSchema = z.object({ place: z.int().min(1).nullable(), donors: z.int().min(0), tokens });
export type TodayPlace = z.infer<typeof todayPlaceSchema>;

/** What `/api/name` answers; empty: none is chosen. */
export const memberNameSchema = z.object({ name: z.string(), team: z.string() });

export type Leaderboard = z.infer<typeof leaderboardSchema>;

/** A donor with a name, and the tokens of committed steps that it carried. */
export interface NamedCredit {
  readonly id: string;
  readonly name: string;
  readonly team: string;
  readonly tokens: number;
}

/** Everyone's place: worked out once, however many look it up. */
interface Ranking {
  readonly donors: readonly (NamedCredit & { readonly rank: number })[];
  readonly teams: Leaderboard['teams'];
  /** Places of donors, by id. */
  readonly places: ReadonlyMap<string, number>;
}

/** Rows that are shown. */
const SHOWN = 20;

interface Standing {
  readonly tokens: number;
  readonly name: string;
}
/** Equal ones stand by name, so that the order does not flicker. */
const byTokens = (a: Standing, b: Standing): number => b.tokens - a.tokens || (a.name < b.name ? -1 : 1);

/** Who has given nothing yet has no place. */
export function ranking(credits: readonly NamedCredit[]): Ranking {
  const donors = credits
    .filter(({ tokens: given }) => given > 0)
    .toSorted(byTokens)
    .map((credit, at) => ({ ...credit, rank: at + 1 }));
  const teams = new Map<string, { donors: number; tokens: number }>();
  for (const { team, tokens: given } of donors.filter((credit) => credit.team !== '')) {
    const known = teams.get(team) ?? { donors: 0, tokens: 0 };
    teams.set(team, { donors: known.donors + 1, tokens: known.tokens + given });
  }
  return {
    donors,
    teams: [...teams]
      .map(([name, sums]) => ({ name, ...sums }))
      .toSorted(byTokens)
      .map(({ name: team, ...sums }, at) => ({ rank: at + 1, team, ...sums })),
    places: new Map(donors.map(({ id }, at) => [id, at])),
  };
}

/** The first rows, and `me` wherever it stands. */
export function leaderboard(
  run: string,
  runTokens: number,
  { donors, teams, places }: Ranking,
  me: string | null,
): Leaderboard {
  const entry = ({ rank, name, team, tokens: given }: Ranking['donors'][number]) => ({
    rank,
    name,
    team,
    tokens: given,
  });
  const own = me === null ? undefined : donors[places.get(me) ?? -1];
  return {
    run,
    runTokens,
    donors: donors.slice(0, SHOWN).map(entry),
    teams: teams.slice(0, SHOWN),
    mine: own ? entry(own) : null,
  };
}
