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
/** What `/api/name` answers; empty: none is chosen. */
export const memberNameSchema = z.object({ name: z.string(), team: z.string() });

export type Leaderboard = z.infer<typeof leaderboardSchema>;

/** A donor with a name, and the tokens of committed steps that it carried. */
export interface NamedCredit {
  readonly member: string;
  readonly name: string;
  readonly team: string;
  readonly tokens: number;
}

/** Rows that are shown. */
const SHOWN = 20;

/** Who has given nothing yet has no place. Equal ones stand by name, so that the order does not flicker. */
export function leaderboard(
  run: string,
  runTokens: number,
  credits: readonly NamedCredit[],
  me: string | null,
): Leaderboard {
  const byTokens = (a: { tokens: number; name: string }, b: { tokens: number; name: string }): number =>
    b.tokens - a.tokens || (a.name < b.name ? -1 : 1);
  const ranked = credits
    .filter(({ tokens: given }) => given > 0)
    .toSorted(byTokens)
    .map((credit, at) => ({ ...credit, rank: at + 1 }));
  const teams = new Map<string, { donors: number; tokens: number }>();
  for (const { team, tokens: given } of ranked.filter((credit) => credit.team !== '')) {
    const known = teams.get(team) ?? { donors: 0, tokens: 0 };
    teams.set(team, { donors: known.donors + 1, tokens: known.tokens + given });
  }
  const rankedTeams = [...teams].map(([name, sums]) => ({ name, ...sums })).toSorted(byTokens);
  const entry = ({ rank, name, team, tokens: given }: (typeof ranked)[number]) => ({ rank, name, team, tokens: given });
  const own = ranked.find(({ member }) => member === me);
  return {
    run,
    runTokens,
    donors: ranked.slice(0, SHOWN).map(entry),
    teams: rankedTeams.slice(0, SHOWN).map(({ name: team, ...sums }, at) => ({ rank: at + 1, team, ...sums })),
    mine: own ? entry(own) : null,
  };
}
