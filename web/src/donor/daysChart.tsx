/** What this browser gave day by day: bars for the eye, a sentence and a table for everyone else. */
import { useState } from 'preact/hooks';
import { countText } from '../page/format.ts';
import { type Day, lastDays } from './credit.ts';

const DAYS = 30;
const HEIGHT = 100;
/** A day on which little was given is seen still. */
const LEAST_HEIGHT = 2;

export function DaysChart({ days, today }: { days: readonly Day[]; today: string }) {
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
      <DaysTable days={shown} />
    </figure>
  );
}

function DaysTable({ days }: { days: readonly Day[] }) {
  const [isOpen, open] = useState(false);
  return (
    <details class="numbers" onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary>Numbers</summary>
      {isOpen && (
        <table>
          <thead>
            <tr>
              <th scope="col">Day</th>
              <th scope="col" class="number">
                Tokens
              </th>
            </tr>
          </thead>
          <tbody>
            {days
              .filter(({ tokens }) => tokens > 0)
              .toReversed()
              .map(({ day, tokens }) => (
                <tr key={day}>
                  <th scope="row">{day}</th>
                  <td class="number">{countText(tokens)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      )}
    </details>
  );
}
