/** What donors read before they help: the operator's own words about the run that is active. */
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { EMPTY_CARD, type RunCard, runCardSchema } from '../../../swarm/messages/about.ts';
import { onSubmit, TextArea, TextField } from '../page/fields.tsx';
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
        <TextArea
          label="Why it is trained, in a sentence or two"
          value={card.purpose}
          onInput={(purpose) => write({ ...card, purpose })}
          area={{ rows: 3, maxLength: 600 }}
        />
        <div class="fields">
          {FIELDS.map(([field, label, most]) => (
            <TextField
              key={field}
              label={label}
              value={card[field]}
              onInput={(text) => write({ ...card, [field]: text })}
              input={{
                maxLength: most,
                'aria-invalid': !runCardSchema.shape[field].safeParse(card[field]).success || undefined,
              }}
            />
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
