/** A name for whoever wants one, and the leaderboard of those who have one. Everything that somebody wrote is text. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type Leaderboard, leaderboardSchema, memberNameSchema } from '../../../swarm/leaderboard.ts';
import { NAME_LENGTH_LIMIT, nameProblem } from '../../../swarm/publicName.ts';
import { Scroll } from '../operator/scroll.tsx';
import { ask } from '../page/ask.ts';
import { countText, percentText } from '../page/format.ts';

const ASK_MS = 30_000;

/** Of this browser; null: it keeps none, or none yet. */
type KeyOf = () => string | null;

const keyed = (key: string | null): Record<string, string> => (key === null ? {} : { authorization: `Bearer ${key}` });

interface MemberProps {
  /** Looks only. */
  readonly knownKey: KeyOf;
  /** Makes one where there is none. */
  readonly ownKey: KeyOf;
}

export function MemberCard({ knownKey, ownKey }: MemberProps) {
  const [isOpen, open] = useState(false);
  return (
    <details class="card" onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary>Leaderboard, and a name of your own</summary>
      {isOpen && <Members knownKey={knownKey} ownKey={ownKey} />}
    </details>
  );
}

function Members({ knownKey, ownKey }: MemberProps) {
  const [board, show] = useState<Leaderboard | null>(null);
  const look = useCallback(() => {
    void ask('/api/leaderboard', leaderboardSchema, { headers: keyed(knownKey()) }).then(
      (answer) => answer.ok && show(answer.value),
    );
  }, [knownKey]);
  useEffect(() => {
    look();
    const timer = setInterval(() => document.visibilityState === 'visible' && look(), ASK_MS);
    return () => clearInterval(timer);
  }, [look]);
  return (
    <>
      <NameForm knownKey={knownKey} ownKey={ownKey} onChange={look} />
      {board && <Board board={board} />}
    </>
  );
}

function NameForm({ knownKey, ownKey, onChange }: MemberProps & { readonly onChange: () => void }) {
  const [kept, keep] = useState({ name: '', team: '' });
  const [written, write] = useState<{ readonly name: string; readonly team: string } | null>(null);
  const [answer, say] = useState('');
  const { name, team } = written ?? kept;
  useEffect(() => {
    const key = knownKey();
    if (key === null) return;
    void ask('/api/name', memberNameSchema, { headers: keyed(key) }).then((found) => found.ok && keep(found.value));
  }, [knownKey]);
  const change = async (method: 'PUT' | 'DELETE', done: string): Promise<void> => {
    const key = ownKey();
    if (key === null) return say('This browser keeps nothing for this site, so it cannot keep a name either.');
    const wrong = method === 'PUT' ? (nameProblem(name) ?? nameProblem(team)) : null;
    if (wrong !== null) return say(`Not saved: ${wrong}.`);
    const body = method === 'PUT' ? { body: JSON.stringify({ name, team }) } : {};
    const type: Record<string, string> = method === 'PUT' ? { 'content-type': 'application/json' } : {};
    const saved = await ask('/api/name', memberNameSchema, { method, headers: { ...keyed(key), ...type }, ...body });
    say(saved.ok ? done : saved.reason);
    if (!saved.ok) return;
    keep(saved.value);
    write(null);
    onChange();
  };
  return (
    <form
      class="name"
      onSubmit={(event) => {
        event.preventDefault();
        void change('PUT', 'Saved. What this browser gives counts for it from now on.');
      }}
    >
      <p class="soft small">
        You are nobody here until you choose a name. Everyone can read it: at most {NAME_LENGTH_LIMIT} characters. Only
        tokens of committed steps count, from the connection in which you choose it on.
      </p>
      <div class="fields">
        <label>
          <span>Name</span>
          <input
            type="text"
            autocomplete="nickname"
            spellcheck={false}
            value={name}
            onInput={({ currentTarget }) => write({ name: currentTarget.value, team })}
          />
        </label>
        <label>
          <span>Team (or none)</span>
          <input
            type="text"
            autocomplete="organization"
            spellcheck={false}
            value={team}
            onInput={({ currentTarget }) => write({ name, team: currentTarget.value })}
          />
        </label>
      </div>
      <div class="buttons">
        <button type="submit" disabled={name.trim() === ''}>
          Save the name
        </button>
        {kept.name !== '' && (
          <button type="button" onClick={() => void change('DELETE', 'Deleted, here and at the server.')}>
            Delete it
          </button>
        )}
        <span role="status" class="small">
          {answer}
        </span>
      </div>
    </form>
  );
}

function Board({ board: { donors, teams, mine, runTokens } }: { board: Leaderboard }) {
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
  return (
    <Scroll label={caption}>
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">
              #
            </th>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
            <th scope="col" class="number">
              Tokens
            </th>
            <th scope="col" class="number">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ rank, cells, tokens, share, isMine }) => (
            <tr key={rank} class={isMine ? 'mine' : ''}>
              <td class="number">{rank}</td>
              <th scope="row">
                <span class="written">{cells[0]}</span>
                {isMine && <span class="you"> (you)</span>}
              </th>
              <td>
                <span class="written">{cells[1]}</span>
              </td>
              <td class="number">{countText(tokens)}</td>
              <td class="number">{share}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
