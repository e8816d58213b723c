/** What this browser gave so far. The record is on this computer: it can be taken along, and deleted. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { countText, percentText } from '../page/format.ts';
import { Press } from '../page/parts.tsx';
import { saveBlob } from '../page/save.ts';
import { Scroll } from '../page/scroll.tsx';
import { type Credit, creditText, share } from './credit.ts';
import { DaysChart } from './daysChart.tsx';

interface CreditProps {
  readonly credit: Credit;
  readonly forget: () => void;
}

interface CardProps extends CreditProps {
  readonly today: string;
  /** Null: the server does not know this tab now. */
  readonly askPlace: (() => Promise<string>) | null;
}

export function CreditCard({ credit, forget, today, askPlace }: CardProps) {
  if (credit.runs.length === 0) return null;
  const runs = credit.runs.toReversed();
  return (
    <details class="card credit">
      <summary>What you gave</summary>
      <Scroll label="What you gave to each run">
        <table>
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col" class="number">
                Tokens
              </th>
              <th scope="col" class="number">
                Share
              </th>
              <th scope="col">Last day</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((entry) => (
              <tr key={entry.run}>
                <th scope="row">{entry.run}</th>
                <td class="number">{countText(entry.tokens)}</td>
                <td class="number">{percentText(share(entry))}</td>
                <td>{entry.lastDay}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
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
