/** How the questions that people ask the model have been answered in the newest minutes. Not there where nobody asked. */
import { useEffect, useState } from 'preact/hooks';
import { type ApiKeyList, apiKeyListSchema } from '../../../swarm/messages/apiKeys.ts';
import { secondsText } from '../../../swarm/quantityText.ts';
import { countText, NOTHING, percentText } from '../page/format.ts';
import { Card } from '../page/parts.tsx';
import { useAnswer } from './api.ts';

const LOOK_MS = 5_000;

/** Keys of nobody, before the server's list is here. */
export const NO_KEYS: ApiKeyList = {
  mode: 'keys',
  keys: [],
  answers: {
    ...{ open: 0, tokensPerSecond: 0, sentAway: 0, donorShare: 0 },
    firstTokenSeconds: { median: null, most: null },
  },
};

const timeText = (seconds: number | null): string => (seconds === null ? NOTHING : secondsText(seconds, 2));

export function AnswersCard() {
  const [looks, look] = useState(0);
  const [{ answers }] = useAnswer('/api/operator/keys', apiKeyListSchema, NO_KEYS, looks);
  useEffect(() => {
    const timer = setInterval(() => look((count) => count + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const { open, tokensPerSecond, firstTokenSeconds, sentAway, donorShare } = answers;
  if (open === 0 && tokensPerSecond === 0 && sentAway === 0) return null;
  const rows = [
    ['Open questions', countText(open)],
    ['Tokens a second', tokensPerSecond.toFixed(1)],
    ['First token, median', timeText(firstTokenSeconds.median)],
    ['First token, 95 of 100 within', timeText(firstTokenSeconds.most)],
    ['Sent away for want of a place', countText(sentAway)],
    ['Of the donors’ time', percentText(donorShare)],
  ] as const;
  return (
    <Card id="answers" title="Answers, the last five minutes">
      <dl class="facts">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
