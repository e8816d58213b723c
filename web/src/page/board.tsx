/** Who gave a run how much, of those donors who chose a name: what they wrote is text. Pure. */
import type { Leaderboard } from '../../../swarm/messages/leaderboard.ts';
import { countText, percentText } from './format.ts';
import { cell, type Head, ROW, ROW_HEAD, Stacks } from './stacks.tsx';

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

interface RankingProps {
  readonly caption: string;
  readonly columns: readonly [string, string];
  readonly rows: readonly {
    readonly rank: number;
    readonly cells: readonly string[];
    readonly tokens: number;
    readonly share: string;
    readonly isMine: boolean;
  }[];
}

function Ranking({ caption, columns, rows }: RankingProps) {
  const heads: Head[] = [
    { name: '#', isNumber: true },
    ...columns.map((name) => ({ name })),
    ...['Tokens', 'Share'].map((name) => ({ name, isNumber: true })),
  ];
  return (
    <Stacks label={caption} kind="board" heads={heads}>
      {rows.map(({ rank, cells, tokens, share, isMine }) => (
        <tr key={rank} {...ROW} class={isMine ? 'mine' : ''}>
          <td {...cell('#', 'number')}>{rank}</td>
          <th {...ROW_HEAD}>
            <span class="written">{cells[0]}</span>
            {isMine && <span class="you"> (you)</span>}
          </th>
          <td {...cell(columns[1])}>
            <span class="written">{cells[1]}</span>
          </td>
          <td {...cell('Tokens', 'number')}>{countText(tokens)}</td>
          <td {...cell('Share', 'number')}>{share}</td>
        </tr>
      ))}
    </Stacks>
  );
}
