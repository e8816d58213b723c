/** Who may ask the models over the API: keys are made here, shown once, and revoked. */
import { useState } from 'preact/hooks';
import { z } from 'zod';
import { type ApiMode, apiKeyDraftSchema, apiKeyListSchema } from '../../../swarm/messages/apiKeys.ts';
import { onSubmit, Quantity, TextField } from '../page/fields.tsx';
import { countText } from '../page/format.ts';
import { Card, SmallButton } from '../page/parts.tsx';
import { type Act, Answer, Confirm, useAct } from './act.tsx';
import { NO_KEYS } from './answersCard.tsx';
import { tell, useAnswer } from './api.ts';

const USUAL_TOKENS_AN_HOUR = 20_000;
const madeSchema = z.object({ value: z.object({ key: z.string() }) });

const WHO_MAY: Readonly<Record<ApiMode, string>> = {
  off: 'Nobody may ask the models of this server (--api off).',
  keys: 'Whoever has one of these keys may ask the models of this server, as OpenAI’s clients do, at',
  open: 'Anyone may ask the models of this server, so many tokens an hour from each address; whoever has a key, as many as it says, at',
};

/** `version`: an operator did something, the list may be another. */
export function ApiKeysCard({ version }: { readonly version: number }) {
  const [{ mode, keys }, refresh] = useAnswer('/api/operator/keys', apiKeyListSchema, NO_KEYS, version);
  const [key, show] = useState<string | null>(null);
  const act = useAct();
  const revoke = async (id: string): Promise<void> => {
    show(null);
    await act.tell('/api/operator/keys/revoke', { id }, 'Revoked. Nobody can ask with it any more.');
    refresh();
  };
  return (
    <Card id="api-keys" title="API keys">
      <p class="soft">
        {WHO_MAY[mode]}
        {mode !== 'off' && (
          <>
            {' '}
            <code>{location.origin}/v1</code>.
          </>
        )}
      </p>
      <ul class="rows">
        {keys.map(({ id, name, tokensAnHour, madeAtMs }) => (
          <li key={id} class="checkpoint">
            <span>
              {name}: {countText(tokensAnHour)} tokens an hour, since{' '}
              <time dateTime={new Date(madeAtMs).toISOString()}>{new Date(madeAtMs).toLocaleDateString()}</time>
            </span>
            <Confirm
              label="Revoke"
              question={`Revoke the key of ${name}?`}
              about={`the key of ${name}`}
              disabled={act.isOff}
              onSure={() => void revoke(id)}
            />
          </li>
        ))}
      </ul>
      <NewKey
        act={act}
        onMade={(made) => {
          show(made);
          refresh();
        }}
      />
      {key !== null && (
        <p>
          <code>{key}</code>
        </p>
      )}
      <Answer answer={act.answer} />
    </Card>
  );
}

/** `onMade` is told the key; null: none was made. */
function NewKey({ act, onMade }: { readonly act: Act; readonly onMade: (key: string | null) => void }) {
  const [name, write] = useState('');
  const [tokensAnHour, limit] = useState(USUAL_TOKENS_AN_HOUR);
  const draft = { name, tokensAnHour };
  const make = async (): Promise<void> => {
    const isMade = await act.run(async () => {
      const made = await tell('/api/operator/keys', draft, madeSchema);
      onMade(made.ok ? made.value.value.key : null);
      return made;
    }, 'Copy the key now: it is shown this once.');
    if (isMade) write('');
  };
  return (
    <form onSubmit={onSubmit(make)}>
      <div class="fields">
        <TextField label="For whom" value={name} onInput={write} input={{ maxLength: 80, autocomplete: 'off' }} />
        <Quantity label="Tokens an hour, at most" value={tokensAnHour} least={1} onInput={limit} />
      </div>
      <div class="buttons">
        <SmallButton type="submit" disabled={act.isOff || !apiKeyDraftSchema.safeParse(draft).success}>
          Make a key
        </SmallButton>
      </div>
    </form>
  );
}
