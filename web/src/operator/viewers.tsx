/** A link for somebody who may look at everything here and change nothing. */
import { useState } from 'preact/hooks';
import { z } from 'zod';
import { Answer, useAct } from './act.tsx';
import { tell } from './api.ts';

const tokenSchema = z.object({ token: z.string() });

export function Viewers() {
  const [link, show] = useState<string | null>(null);
  const act = useAct();
  const make = (): Promise<boolean> =>
    act.run(async () => {
      const made = await tell('/api/operator/viewer', {}, tokenSchema);
      if (made.ok) show(`${location.origin}/operator#token=${made.value.token}`);
      return made;
    }, 'The link works once, within a day. Whoever opens it can look, but change nothing.');
  return (
    <section class="card" aria-labelledby="viewers">
      <h2 id="viewers">Viewers</h2>
      <div class="buttons">
        <button type="button" class="small" disabled={act.isOff} onClick={() => void make()}>
          Make a link for a viewer
        </button>
      </div>
      {link !== null && (
        <p>
          <code>{link}</code>
        </p>
      )}
      <Answer answer={act.answer} />
    </section>
  );
}
