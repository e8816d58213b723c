/** What should not go on unseen, and how much is too much. The server keeps the limits, for every operator. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Alert, alertsOf, type Saved, savedAt } from '../../../swarm/messages/alerts.ts';
import { type AlertLimits, alertLimitsSchema } from '../../../swarm/messages/watch.ts';
import { monotonicMs, thisMoment } from '../page/clock.ts';
import { onSubmit, Quantity } from '../page/fields.tsx';
import { Card, SmallButton } from '../page/parts.tsx';
import { type Act, Answer, useAct } from './act.tsx';
import { AlertWays, useNotices } from './alertWays.tsx';
import type { SectionProps } from './props.ts';
import { CONNECTIONS, PHASES, runSign } from './signs.ts';
import type { OperatorState } from './state.ts';

const TITLE = 'Shoal: operator';
const LOOK_MS = 2_000;
const NONE: readonly Alert[] = [];

/** What stands first in the tab's title: the run's state, or what becomes of it, or that the server is away. */
function stateText({ connection, snapshot, changingTo }: OperatorState): string {
  const { glyph, word } = snapshot && changingTo !== null ? PHASES.preparing : shownSign(connection, snapshot);
  return `${glyph} ${word}${snapshot && changingTo !== null ? ` ${changingTo}` : ''}`;
}

const shownSign = (connection: OperatorState['connection'], snapshot: OperatorState['snapshot']) =>
  connection === 'open' && snapshot ? runSign(snapshot) : CONNECTIONS[connection];

/** How long a run has not moved, as far as a page can see: while nothing comes of it no time passes. Pure. */
interface Stillness {
  /** What would be another one if it moved. */
  readonly key: string;
  readonly isSeen: boolean;
  readonly sinceMs: number;
  /** When it was seen last. */
  readonly seenMs: number;
}

export const stillMs = ({ sinceMs, seenMs }: Stillness): number => seenMs - sinceMs;

export function stillnessAt(known: Stillness | null, key: string, isSeen: boolean, nowMs: number): Stillness {
  if (known !== null && !isSeen) return { ...known, isSeen };
  if (known?.key !== key) return { key, isSeen, sinceMs: nowMs, seenMs: nowMs };
  // Out of sight it stood no less, but that time does not count.
  const unseenMs = known.isSeen ? 0 : nowMs - known.seenMs;
  return { key, isSeen, sinceMs: known.sinceMs + unseenMs, seenMs: nowMs };
}

/** Whatever part of the dashboard is open; the tab's title says how many there are, and how the run is. */
export function useAlerts(of: OperatorState): readonly Alert[] {
  const { snapshot, curve, events, alertLimits: limits, connection, freeBytes } = of;
  const state = stateText(of);
  const [nowMs, look] = useState(monotonicMs());
  const isSeen = connection === 'open';
  useEffect(() => {
    const timer = isSeen ? setInterval(() => look(monotonicMs()), LOOK_MS) : undefined;
    return () => clearInterval(timer);
  }, [isSeen]);
  const still = useRef<Stillness | null>(null);
  still.current = stillnessAt(still.current, `${snapshot?.phase} ${snapshot?.committedSteps}`, isSeen, monotonicMs());
  const saved = useRef<Saved | null>(null);
  if (snapshot) saved.current = savedAt(saved.current, snapshot.run, events, thisMoment());
  const savedMs = nowMs - (saved.current?.atMs ?? nowMs);
  const alerts = snapshot
    ? alertsOf({ snapshot, curve, events, limits, stillMs: stillMs(still.current), savedMs, freeBytes })
    : NONE;
  useNotices(snapshot?.run ?? '', isSeen ? alerts : NONE);
  useEffect(() => {
    document.title = [...(alerts.length > 0 ? [`⚠ ${alerts.length}`] : []), state, TITLE].join(' · ');
  }, [alerts.length, state]);
  // Who logs out leaves the alerts behind, and their title.
  useEffect(
    () => () => {
      document.title = TITLE;
    },
    [],
  );
  return alerts;
}

const FIELDS: readonly (readonly [keyof AlertLimits, string, number])[] = [
  ['donors', 'Donors at work, at least', 0],
  ['stalledSeconds', 'Seconds without a step, at most', 5],
  ['checkpointMinutes', 'Minutes without a checkpoint, at most', 1],
];

/** What is wrong now; its place is there before, so that a screen reader says what comes. */
export function AlertNotices({ alerts }: Pick<SectionProps, 'alerts'>) {
  return (
    <div class="alerts" aria-live="polite">
      {alerts.map(({ kind, text }) => (
        <p key={kind} class="notice bad">
          <span aria-hidden="true">⚠ </span>
          {text}
        </p>
      ))}
    </div>
  );
}

export function AlertsCard({ alerts, snapshot, state: { alertLimits, role } }: SectionProps) {
  const act = useAct();
  return (
    <Card id="alerts" title="Alerts">
      <AlertNotices alerts={alerts} />
      {role === 'operator' && (
        <details>
          <summary>How to reach you</summary>
          <AlertWays run={snapshot.run} />
        </details>
      )}
      <details>
        <summary>When to alert</summary>
        <LimitsForm key={JSON.stringify(alertLimits)} kept={alertLimits} act={act} />
        <Answer answer={act.answer} />
        <p class="soft small">
          These limits hold for every operator. For monitoring without this page, the server’s{' '}
          <a href="/metrics">metrics</a> come with Prometheus rules and a Grafana board.
        </p>
      </details>
    </Card>
  );
}

/** Begins anew with what the server keeps, whoever changed it. */
function LimitsForm({ kept, act }: { kept: AlertLimits; act: Act }) {
  const [limits, edit] = useState(kept);
  const isWhole = alertLimitsSchema.safeParse(limits).success;
  return (
    <form onSubmit={onSubmit(() => act.tell('/api/operator/alerts', limits, 'Kept.'))}>
      <div class="fields">
        {FIELDS.map(([field, label, least]) => (
          <Quantity
            key={field}
            label={label}
            value={limits[field]}
            least={least}
            onInput={(limit) => edit({ ...limits, [field]: limit })}
          />
        ))}
      </div>
      <div class="buttons">
        <SmallButton type="submit" disabled={act.isOff || !isWhole || limits === kept}>
          Keep these limits
        </SmallButton>
      </div>
    </form>
  );
}
