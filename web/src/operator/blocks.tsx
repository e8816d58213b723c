/** Addresses that were shut out, and the way to let them in again. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { Answer, useAct } from './act.tsx';
import { read, tell } from './api.ts';

const blocksSchema = z.object({
  blocks: z.array(z.object({ address: z.string(), atMs: z.number(), note: z.string() })),
});
type Block = z.infer<typeof blocksSchema>['blocks'][number];

/** `version`: an operator did something, the list may be another. */
export function Blocks({ version }: { version: number }) {
  const [blocks, show] = useState<readonly Block[]>([]);
  const act = useAct();
  const refresh = useCallback(() => {
    void read('/api/operator/blocks', blocksSchema).then((answer) => {
      if (answer.ok) show(answer.value.blocks);
    });
  }, []);
  useEffect(refresh, [version]);
  if (blocks.length === 0) return null;
  const open = async (address: string): Promise<void> => {
    await act.run(() => tell('/api/operator/unblock', { address }, z.unknown()), 'The address may join again.');
    refresh();
  };
  return (
    <section class="card" aria-labelledby="blocks">
      <h2 id="blocks">Blocked addresses</h2>
      <ul class="rows">
        {blocks.map(({ address, atMs, note }) => (
          <li key={address} class="checkpoint">
            <span>
              Since <time dateTime={new Date(atMs).toISOString()}>{new Date(atMs).toLocaleString()}</time>
              {note !== '' && `: ${note}`}
            </span>
            <button type="button" class="small" disabled={act.isOff} onClick={() => void open(address)}>
              Let in again
            </button>
          </li>
        ))}
      </ul>
      <Answer answer={act.answer} />
    </section>
  );
}
