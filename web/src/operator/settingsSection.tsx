/** What operators set once: alerts, who may look and ask, rehearsals; and below it what happened, newest first, and who did what here. */
import { useMemo, useState } from 'preact/hooks';
import { z } from 'zod';
import { EVENT_KINDS, type EventKind, type WatchedEvent } from '../../../swarm/messages/watch.ts';
import { wallMs } from '../page/clock.ts';
import { Choice } from '../page/fields.tsx';
import { countText } from '../page/format.ts';
import { Card, Chip, SmallButton } from '../page/parts.tsx';
import { type Column, numbers, Stacks } from '../page/stacks.tsx';
import { Technical } from '../page/technical.tsx';
import { Answer, useAct } from './act.tsx';
import { AlertsCard } from './alertsCard.tsx';
import { tell } from './api.ts';
import { ApiKeysCard } from './apiKeysCard.tsx';
import { eventDetail, eventText, peerOf } from './eventText.ts';
import { EVENT_SIGNS } from './marks.ts';
import type { SectionProps } from './props.ts';
import { RehearsalsCard } from './rehearsalsCard.tsx';

/** Rows that are shown at once. */
const PAGE = 100;

/** A link for somebody who may look at everything here and change nothing. */
const tokenSchema = z.object({ token: z.string() });

function Viewers() {
  const [link, show] = useState<string | null>(null);
  const act = useAct();
  const make = (): Promise<boolean> =>
    act.run(async () => {
      const made = await tell('/api/operator/viewer', {}, tokenSchema);
      if (made.ok) show(`${location.origin}/operator#token=${made.value.token}`);
      return made;
    }, 'The link works once, within a day. Whoever opens it can look, but change nothing.');
  return (
    <Card id="viewers" title="Viewers">
      <div class="buttons">
        <SmallButton disabled={act.isOff} onClick={() => void make()}>
          Make a link for a viewer
        </SmallButton>
      </div>
      {link !== null && (
        <p>
          <code>{link}</code>
        </p>
      )}
      <Answer answer={act.answer} />
    </Card>
  );
}

export function SettingsSection(props: SectionProps) {
  const { state, snapshot } = props;
  const { events, role, rehearsals } = state;
  const happened = useMemo(() => events.filter(({ kind }) => kind !== 'operator'), [events]);
  const done = useMemo(() => events.filter(({ kind }) => kind === 'operator'), [events]);
  return (
    <>
      <AlertsCard {...props} />
      {role === 'operator' && <Viewers />}
      {role === 'operator' && <ApiKeysCard version={done.at(-1)?.id ?? 0} />}
      <RehearsalsCard {...rehearsals} isOver={snapshot.phase === 'finished'} />
      <EventTable title="What happened" events={happened} hasKinds />
      <EventTable title="What operators did" events={done} />
    </>
  );
}

interface TableProps {
  readonly title: string;
  readonly events: readonly WatchedEvent[];
  readonly hasKinds?: boolean;
}

function EventTable({ title, events, hasKinds = false }: TableProps) {
  const [kind, choose] = useState<EventKind | 'all'>('all');
  const [shown, show] = useState(PAGE);
  // Who reads is not pushed down the page: what happens meanwhile comes when it is asked for.
  const newest = events.at(-1)?.id ?? 0;
  const [until, read] = useState(newest);
  const last = until === 0 ? newest : until;
  const fresh = events.filter(({ id }) => id > last).length;
  const fitting = useMemo(
    () => events.filter((event) => event.id <= last && (kind === 'all' || event.kind === kind)).toReversed(),
    [events, last, kind],
  );
  const id = title.replaceAll(' ', '-');
  const table = useMemo(
    () => <Stacks labelledBy={id} columns={COLUMNS} rows={fitting.slice(0, shown)} kind="events" />,
    [fitting, shown],
  );
  return (
    <div class="card">
      <div class="live-head">
        <h2 id={id}>{title}</h2>
        <span class="buttons" hidden={events.length === 0}>
          <button type="button" class="small newer" disabled={fresh === 0} onClick={() => read(newest)}>
            {fresh === 0 ? 'Nothing newer' : `Show ${fresh} newer`}
          </button>
          {hasKinds && (
            <Choice
              class="inline"
              label="Kind"
              value={kind}
              options={KINDS}
              choose={choose}
              select={{ class: 'small' }}
            />
          )}
        </span>
      </div>
      {fitting.length === 0 ? (
        <p class="soft empty">{kind === 'all' ? 'Nothing yet.' : 'Nothing of this kind yet.'}</p>
      ) : (
        table
      )}
      {fitting.length > shown && (
        <p class="buttons">
          <button type="button" onClick={() => show(shown + PAGE)}>
            Show more
          </button>
        </p>
      )}
    </div>
  );
}

const KINDS: readonly (readonly [EventKind | 'all', string])[] = [
  ['all', 'all'],
  ...EVENT_KINDS.filter((each) => each !== 'operator').map((each) => [each, EVENT_SIGNS[each].word] as const),
];

const WHOLE_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const DAY_AND_TIME = new Intl.DateTimeFormat(undefined, {
  ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' },
});

/** Of today the time alone. */
const whenText = (atMs: number): string =>
  (new Date(atMs).toDateString() === new Date(wallMs()).toDateString() ? TIME : DAY_AND_TIME).format(atMs);

const COLUMNS: readonly Column<WatchedEvent>[] = [
  { name: 'What', beside: '', of: ({ kind }) => <Chip {...EVENT_SIGNS[kind]} /> },
  { ...numbers('Step', ({ step }) => countText(step)), beside: 'step' },
  {
    name: 'When',
    beside: '',
    of: ({ atMs }) => (
      <time dateTime={new Date(atMs).toISOString()} title={WHOLE_TIME.format(atMs)}>
        {whenText(atMs)}
      </time>
    ),
  },
  {
    name: 'Details',
    look: 'words',
    beside: '',
    of: (event) => {
      const [peer, text] = [peerOf(event), eventText(event)];
      return (
        <>
          {peer}
          {peer !== null && text !== '' && ': '}
          {text}
          <Technical detail={eventDetail(event)} />
        </>
      );
    },
  },
];
