/** How the run does: its numbers now, loss and speed, what changed, and the other charts for who asks. */
import { useMemo } from 'preact/hooks';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { WatchedEvent } from '../../../swarm/messages/watch.ts';
import { invitedLink } from '../page/ask.ts';
import { lossText, percentText, rateText, timeText } from '../page/format.ts';
import { Card, Stat } from '../page/parts.tsx';
import { UNSEEN_LOSS, unseenNote } from '../page/unseenLoss.ts';
import { AlertNotices } from './alertsCard.tsx';
import { ChartPanel } from './chartPanel.tsx';
import { eventDetail, eventText, peerOf } from './eventText.ts';
import { islandNumbers } from './islandGroups.ts';
import { EVENT_SIGNS } from './marks.ts';
import type { SectionProps } from './props.ts';

/** What changed, newest first: the few events that an operator would be told of by somebody who had watched. */
const SHOWN = 7;

function Feed({ events }: { readonly events: readonly WatchedEvent[] }) {
  // Of the many saves the newest one says it all.
  const saved = events.findLast(({ kind }) => kind === 'checkpoint');
  const told = events.filter((event) => event.kind !== 'checkpoint' || event === saved);
  const newest = told.slice(-SHOWN).toReversed();
  return (
    <Card id="feed" title="What changed" beside={<a href="#settings">All of it</a>}>
      {/* A row stays where it is and its words change: what comes new moves nothing that somebody reads. */}
      <ol class="feed">
        {newest.length === 0 && <li class="soft">Nothing yet.</li>}
        {newest.map((event, row) => (
          <Row key={row} event={event} />
        ))}
      </ol>
    </Card>
  );
}

function Row({ event }: { readonly event: WatchedEvent }) {
  const words = wordsOf(event);
  return (
    <li title={[words, eventDetail(event)].filter(Boolean).join(' · ')}>
      <span class={`mark ${EVENT_SIGNS[event.kind].tone}`} aria-hidden="true">
        {EVENT_SIGNS[event.kind].glyph}
      </span>
      <span>
        <time class="soft" dateTime={new Date(event.atMs).toISOString()}>
          {timeText(event.atMs)}
        </time>{' '}
        {words}
      </span>
    </li>
  );
}

function wordsOf(event: WatchedEvent): string {
  const peer = peerOf(event);
  const words = [EVENT_SIGNS[event.kind].word, peer === null ? '' : peer].filter(Boolean).join(' ');
  const text = eventText(event);
  return `${words}${text === '' ? (event.kind === 'checkpoint' ? ` after step ${event.step}` : '') : `: ${text}`}`;
}

export function RunSection(props: SectionProps) {
  const { state, snapshot } = props;
  const numbers = islandNumbers(snapshot);
  // Another list only where others are on it: all charts are drawn anew then.
  const islands = useMemo(() => numbers, [numbers?.join()]);
  const computing = snapshot.donors.filter((donor) => donor.state === 'computing').length;
  return (
    <>
      {snapshot.donors.length === 0 && snapshot.phase === 'waiting' && <Invitation invite={state.invite} />}
      <Card id="now" title={state.connection === 'open' ? 'Now' : 'When last seen'}>
        <AlertNotices {...props} />
        <dl class="stats four">
          <Stat label="Loss" value={lossText(snapshot.loss)} note="of the newest step" />
          <Stat
            label={UNSEEN_LOSS}
            value={lossText(snapshot.evaluationLoss)}
            note={[unseenNote(snapshot.evaluationLoss, state.evaluations.at(-1)?.[0]), answersNote(snapshot)].join('')}
          />
          <Stat label="Speed" value={rateText(snapshot.tokensPerSecond)} note="tokens a second" />
          <Stat label="Donors at work" value={String(computing)} note={`of ${snapshot.donors.length} who are here`} />
        </dl>
      </Card>
      <ChartPanel
        run={snapshot.run}
        curve={state.curve}
        evaluations={state.evaluations}
        answers={state.rightAnswers}
        lossPer={snapshot.lossPer ?? 'token'}
        events={state.events}
        islands={islands}
      >
        <Feed events={state.events} />
      </ChartPanel>
    </>
  );
}

const answersNote = ({ answersRight }: Snapshot): string =>
  answersRight === undefined ? '' : `; ${percentText(answersRight)} of its answers are right`;

/** What is missing at the very beginning, and whenever everyone is gone. */
function Invitation({ invite }: { readonly invite: string | null }) {
  const link = invitedLink('/', invite);
  return (
    <Card id="invitation" title="No donors yet. Share this link.">
      <p>
        <a href={link}>{location.origin + link}</a> Whoever opens it and presses the button takes part, and training
        starts by itself.{invite === null && ' If this server asks for an invitation, share the link that it printed.'}
      </p>
    </Card>
  );
}
