/** What this browser gave so far. The record is on this computer: it can be taken along, and deleted. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { countText, percentText } from '../page/format.ts';
import { Press } from '../page/parts.tsx';
import { saveBlob } from '../page/save.ts';
import { type Column, Folded, heads, numbers, Stacks } from '../page/stacks.tsx';
import { type Credit, creditText, type Day, lastDays, share } from './credit.ts';

interface CreditProps {
  readonly credit: Credit;
  readonly forget: () => void;
}

interface CardProps extends CreditProps {
  readonly today: string;
  /** Null: the server does not know this tab now. */
  readonly askPlace: (() => Promise<string>) | null;
}

/** What this browser gave day by day: bars for the eye, a sentence and a table for everyone else. */
const DAYS = 30;
const HEIGHT = 100;
/** A day on which little was given is seen still. */
const LEAST_HEIGHT = 2;

const DAY_COLUMNS: readonly Column<Day>[] = [
  heads('Day', ({ day }) => day),
  numbers('Tokens', ({ tokens }) => countText(tokens)),
];

const RUN_COLUMNS: readonly Column<Credit['runs'][number]>[] = [
  heads('Run', ({ run }) => run),
  numbers('Tokens', ({ tokens }) => countText(tokens)),
  numbers('Share', (entry) => percentText(share(entry))),
  { name: 'Last day', of: ({ lastDay }) => lastDay },
];

function DaysChart({ days, today }: { days: readonly Day[]; today: string }) {
  const shown = lastDays(days, today, DAYS);
  const most = Math.max(1, ...shown.map(({ tokens }) => tokens));
  const given = shown.reduce((sum, { tokens }) => sum + tokens, 0);
  return (
    <figure class="days">
      <svg viewBox={`0 0 ${DAYS * 10} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {shown.map(({ day, tokens }, at) => {
          const height = tokens > 0 ? Math.max(LEAST_HEIGHT, (tokens / most) * HEIGHT) : 0;
          return <rect key={day} x={at * 10 + 1} width={8} y={HEIGHT - height} height={height} />;
        })}
      </svg>
      <div class="days-scale soft small" aria-hidden="true">
        <span>{shown[0]?.day}</span>
        <span>today</span>
      </div>
      <figcaption>
        Tokens a day: {countText(shown.at(-1)?.tokens ?? 0)} today, {countText(given)} in the last {DAYS} days, at most{' '}
        {countText(most)} on one.
      </figcaption>
      <Folded class="numbers" summary="Numbers">
        {() => (
          <Stacks
            label="Tokens a day"
            columns={DAY_COLUMNS}
            rows={shown.filter(({ tokens }) => tokens > 0).toReversed()}
          />
        )}
      </Folded>
    </figure>
  );
}

export function CreditCard({ credit, forget, today, askPlace }: CardProps) {
  if (credit.runs.length === 0) return null;
  return (
    <details class="card credit">
      <summary>What you gave</summary>
      <Stacks label="What you gave to each run" columns={RUN_COLUMNS} rows={credit.runs.toReversed()} />
      <DaysChart days={credit.days} today={today} />
      {askPlace && <Place ask={askPlace} />}
      <p class="soft small">
        The server counts finished steps only. This record is in this browser and nowhere else. “Share” is of all that
        the run had learned from when you were last here.
      </p>
      <Record credit={credit} forget={forget} />
    </details>
  );
}

/** Only for who wants to know. */
function Place({ ask }: { readonly ask: () => Promise<string> }) {
  const [sentence, say] = useState('');
  return (
    <div class="buttons">
      <Press onPress={() => void ask().then(say)}>My place today</Press>
      <span role="status">{sentence}</span>
    </div>
  );
}

function Record({ credit, forget }: CreditProps) {
  const [isAsking, ask] = useState(false);
  const keep = useRef<HTMLButtonElement>(null);
  // The button that was pressed is gone: the keyboard goes on at the answer that costs nothing.
  useLayoutEffect(() => {
    if (isAsking) keep.current?.focus();
  }, [isAsking]);
  if (!isAsking) {
    return (
      <div class="buttons">
        <button
          type="button"
          onClick={() => saveBlob('shoal-credit.json', new Blob([creditText(credit)], { type: 'application/json' }))}
        >
          Export
        </button>
        <button type="button" onClick={() => ask(true)}>
          Delete
        </button>
      </div>
    );
  }
  const answer = (isSure: boolean): void => {
    ask(false);
    if (isSure) forget();
  };
  return (
    <fieldset class="buttons" aria-label="Delete this record for good?">
      <span>Delete this record for good?</span>
      <button type="button" onClick={() => answer(true)}>
        Delete for good
      </button>
      <button type="button" ref={keep} onClick={() => answer(false)}>
        Keep
      </button>
    </fieldset>
  );
}
