/** A name for whoever wants one, and the leaderboard of those who have one. Everything that somebody wrote is text. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type Leaderboard, leaderboardSchema, memberNameSchema } from '../../../swarm/messages/leaderboard.ts';
import { NAME_LENGTH_LIMIT, nameProblem } from '../../../swarm/messages/publicName.ts';
import { ask, withInvite } from '../page/ask.ts';
import { Board } from '../page/board.tsx';
import { onSubmit, TextField } from '../page/fields.tsx';
import { Folded } from '../page/stacks.tsx';

const ASK_MS = 30_000;

/** Of this browser; null: it keeps none, or none yet. */
type KeyOf = () => string | null;

const keyed = (key: string | null): Record<string, string> => (key === null ? {} : { authorization: `Bearer ${key}` });

interface MemberProps {
  readonly invite: string | null;
  /** Looks only. */
  readonly knownKey: KeyOf;
  /** Makes one where there is none. */
  readonly ownKey: KeyOf;
}

export function MemberCard(props: MemberProps) {
  return (
    <Folded class="card" summary="Leaderboard, and your name on it">
      {() => <Members {...props} />}
    </Folded>
  );
}

function Members({ invite, knownKey, ownKey }: MemberProps) {
  const [board, show] = useState<Leaderboard | null>(null);
  const look = useCallback(() => {
    void ask(withInvite('/api/leaderboard', invite), leaderboardSchema, { headers: keyed(knownKey()) }).then(
      (answer) => answer.ok && show(answer.value),
    );
  }, [invite, knownKey]);
  useEffect(() => {
    look();
    const timer = setInterval(() => document.visibilityState === 'visible' && look(), ASK_MS);
    return () => clearInterval(timer);
  }, [look]);
  return (
    <>
      <NameForm invite={invite} knownKey={knownKey} ownKey={ownKey} onChange={look} />
      {board && <Board board={board} />}
    </>
  );
}

const SAVED = 'Saved. From now on what you give counts for this name.';
const NOBODY = { name: '', team: '' };
const NAMES = [
  ['name', 'Name', 'nickname'],
  ['team', 'Team (or none)', 'organization'],
] as const;

function NameForm({ invite, knownKey, ownKey, onChange }: MemberProps & { readonly onChange: () => void }) {
  const [kept, keep] = useState(NOBODY);
  const [written, write] = useState<typeof NOBODY | null>(null);
  const [answer, say] = useState('');
  const shown = written ?? kept;
  useEffect(() => {
    const key = knownKey();
    if (key === null) return;
    void ask('/api/name', memberNameSchema, { headers: keyed(key) }).then((found) => found.ok && keep(found.value));
  }, [knownKey]);
  const change = async (method: 'PUT' | 'DELETE', done: string): Promise<void> => {
    const key = ownKey();
    if (key === null) return say('This browser stores nothing for this site, so it can’t store a name.');
    const isPut = method === 'PUT';
    const wrong = isPut ? (nameProblem(shown.name) ?? nameProblem(shown.team)) : null;
    if (wrong !== null) return say(`Not saved: ${wrong}.`);
    const headers = { ...keyed(key), ...(isPut && { 'content-type': 'application/json' }) };
    const body = isPut ? { body: JSON.stringify(shown) } : {};
    const saved = await ask(withInvite('/api/name', invite), memberNameSchema, { method, headers, ...body });
    say(saved.ok ? done : saved.reason);
    if (!saved.ok) return;
    keep(saved.value);
    write(null);
    onChange();
  };
  return (
    <form class="name" onSubmit={onSubmit(() => change('PUT', SAVED))}>
      <p class="soft small">
        You’re anonymous. Pick a name to appear on the leaderboard, at most {NAME_LENGTH_LIMIT} characters. Everyone can
        read it. What you give counts from then on.
      </p>
      <div class="fields">
        {NAMES.map(([field, label, autocomplete]) => (
          <TextField
            key={field}
            label={label}
            value={shown[field]}
            onInput={(text) => write({ ...shown, [field]: text })}
            input={{ type: 'text', autocomplete, spellcheck: false }}
          />
        ))}
      </div>
      <div class="buttons">
        <button type="submit" disabled={shown.name.trim() === ''}>
          Save the name
        </button>
        {kept.name !== '' && (
          <button type="button" onClick={() => void change('DELETE', 'Deleted, here and on the server.')}>
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
