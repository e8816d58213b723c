/** Who gave a run how much, of those donors who chose a name: what they wrote is text. Pure. */
import type { Leaderboard } from '../../../swarm/messages/leaderboard.ts';
import { countText, percentText } from './format.ts';
import { type Column, heads, numbers, ROW, Stacks } from './stacks.tsx';

export function Board({ board: { donors, teams, mine, runTokens } }: { board: Leaderboard }) {
  if (donors.length === 0) return <p class="soft">Nobody with a name has given this run anything yet.</p>;
  const isShown = donors.some(({ rank }) => rank === mine?.rank);
  const rows = mine && !isShown ? [...donors, mine] : donors;
  const share = (tokens: number): string => percentText(runTokens > 0 ? tokens / runTokens : null);
  return (
    <>
      <Ranking
        caption="Donors"
        columns={['Donor', 'Team']}
        rows={rows.map(({ rank, name, team, tokens }) => ({
          ...{ rank, cells: [name, team], tokens, share: share(tokens), isMine: rank === mine?.rank },
        }))}
      />
      {teams.length > 0 && (
        <Ranking
          caption="Teams"
          columns={['Team', 'Donors']}
          rows={teams.map(({ rank, team, donors: count, tokens }) => ({
            ...{ rank, cells: [team, countText(count)], tokens, share: share(tokens), isMine: false },
          }))}
        />
      )}
    </>
  );
}

interface Ranked {
  readonly rank: number;
  readonly cells: readonly string[];
  readonly tokens: number;
  readonly share: string;
  readonly isMine: boolean;
}

interface RankingProps {
  readonly caption: string;
  readonly columns: readonly [string, string];
  readonly rows: readonly Ranked[];
}

function Ranking({ caption, columns: [first, second], rows }: RankingProps) {
  const columns: readonly Column<Ranked>[] = [
    numbers('#', ({ rank }) => rank),
    heads(first, ({ cells, isMine }) => (
      <>
        <span class="written">{cells[0]}</span>
        {isMine && <span class="you"> (you)</span>}
      </>
    )),
    { name: second, of: ({ cells }) => <span class="written">{cells[1]}</span> },
    numbers('Tokens', ({ tokens }) => countText(tokens)),
    numbers('Share', ({ share }) => share),
  ];
  return (
    <Stacks
      label={caption}
      kind="board"
      columns={columns}
      rows={rows}
      drawn={(cells, { rank, isMine }) => (
        <tr key={rank} {...ROW} class={isMine ? 'mine' : ''}>
          {cells}
        </tr>
      )}
    />
  );
}
