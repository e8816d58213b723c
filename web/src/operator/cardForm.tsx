/** What donors read before they help: the operator's own words about the run that is active. */
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { EMPTY_CARD, type RunCard, runCardSchema } from '../../../swarm/messages/about.ts';
import { onSubmit } from '../page/fields.tsx';
import { SmallButton } from '../page/parts.tsx';
import { Answer, useAct } from './act.tsx';
import { read } from './api.ts';

const keptSchema = z.object({ card: runCardSchema.nullable() });

const FIELDS: readonly (readonly [Exclude<keyof RunCard, 'purpose'>, string, number])[] = [
  ['by', 'Who trains it (you, a class, a project)', 100],
  ['text', 'Text it learns from', 200],
  ['licence', 'Licence of the model', 100],
  ['link', 'Link to read more (https://…)', 500],
];

export function CardForm({ run }: { readonly run: string }) {
  const [card, write] = useState(EMPTY_CARD);
  const act = useAct();
  useEffect(() => {
    void read('/api/operator/card', keptSchema).then((kept) => kept.ok && write(kept.value.card ?? EMPTY_CARD));
  }, [run]);
  const parsed = runCardSchema.safeParse(card);
  return (
    <details class="card">
      <summary>What donors read about {run}</summary>
      <form onSubmit={onSubmit(() => act.tell('/api/operator/card', card, 'Saved. New visitors see it from now on.'))}>
        <label class="block">
          <span>Why it is trained, in a sentence or two</span>
          <textarea
            rows={3}
            maxLength={600}
            value={card.purpose}
            onInput={({ currentTarget }) => write({ ...card, purpose: currentTarget.value })}
          />
        </label>
        <div class="fields">
          {FIELDS.map(([field, label, most]) => (
            <label key={field}>
              <span>{label}</span>
              <input
                maxLength={most}
                value={card[field]}
                aria-invalid={!runCardSchema.shape[field].safeParse(card[field]).success || undefined}
                onInput={({ currentTarget }) => write({ ...card, [field]: currentTarget.value })}
              />
            </label>
          ))}
        </div>
        <div class="buttons">
          <SmallButton type="submit" disabled={act.isOff || !parsed.success}>
            Save
          </SmallButton>
          {!parsed.success && <span class="small">The link must begin with https:// or http://.</span>}
        </div>
        <Answer answer={act.answer} />
      </form>
    </details>
  );
}
