/** The end of a run: what came of it, who helped, and what comes next. */
import { useEffect, useState } from 'preact/hooks';
import { leaderboardSchema } from '../../../swarm/messages/leaderboard.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { ask, withInvite } from '../page/ask.ts';
import { countText, lossText } from '../page/format.ts';
import { Card } from '../page/parts.tsx';
import { awaitedAfter, tellWhenNext } from './nextRun.ts';
import { type Sample, Writing } from './writing.tsx';

interface EndingProps {
  readonly status: PublicStatus;
  readonly invite: string | null;
  /** This tab takes part still, and will in the next run. */
  readonly staysHere: boolean;
  /** Who helped takes the model with them. now: as long as the server knows this tab; later: whenever this browser comes back. */
  readonly download: 'none' | 'now' | 'later';
  /** What the finished model writes; null: it stands elsewhere on the page. */
  readonly sample: Sample | null;
}

const NAMES_SHOWN = 10;

export function Ending({ status, invite, staysHere, download, sample }: EndingProps) {
  const [names, show] = useState<readonly string[]>([]);
  useEffect(() => {
    void ask(withInvite('/api/leaderboard', invite), leaderboardSchema).then(
      (board) => board.ok && show(board.value.donors.slice(0, NAMES_SHOWN).map(({ name }) => name)),
    );
  }, [invite, status.run]);
  const [first, last] = [status.evaluations[0], status.evaluations.at(-1)];
  return (
    <Card id="ending" title={`${status.run} is finished`}>
      <p>
        All {countText(status.steps)} steps are done.
        {first && last && first !== last && (
          <>
            {' '}
            Its loss on text it has never seen fell from {lossText(first[1])} to {lossText(last[1])}.
          </>
        )}{' '}
        {names.length > 0 ? (
          <>
            Thanks to <span class="written">{names.join(', ')}</span> and everyone who helped without a name.
          </>
        ) : (
          'Thanks to everyone who helped.'
        )}
      </p>
      <p>{nextText(status, staysHere)}</p>
      {sample && <Writing sample={sample} steps={status.steps} />}
      {download !== 'none' && (
        <p>
          Want to keep the model? Download it below{download === 'now' ? ' before you close or reload this tab' : ''}.
        </p>
      )}
      {!staysHere && <TellMe run={status.run} />}
    </Card>
  );
}

function nextText({ next }: PublicStatus, staysHere: boolean): string {
  if (next !== null)
    return staysHere
      ? `Next comes ${next}: this tab goes on with it by itself.`
      : `Next comes ${next}. It begins in a moment.`;
  return staysHere
    ? 'No next run is planned yet. Leave this tab open, and it goes on by itself when one begins.'
    : 'No next run is planned yet.';
}

function TellMe({ run }: { readonly run: string }) {
  const isOn = awaitedAfter.value === run;
  return (
    <div class="buttons">
      <button type="button" disabled={isOn} onClick={() => void tellWhenNext(run)}>
        Tell me when the next begins
      </button>
      <span role="status" class="soft small">
        {isOn && 'We’ll tell you, as long as this tab is open.'}
      </span>
    </div>
  );
}
