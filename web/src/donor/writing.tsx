/** What the newest saved state of the model writes, typing itself out; at once where nothing is to move. */
import { useEffect, useState } from 'preact/hooks';
import type { PublicSample } from '../../../swarm/messages/about.ts';
import { countText } from '../page/format.ts';

/** At most four redraws a second, as everywhere. */
const TICK_MS = 250;
const TICK_CHARACTERS = 8;

/** Share of a run before which what the model writes is mostly noise. */
const NOISE = 0.05;

/** `steps`: of the whole run. */
export function Writing({ sample, steps }: { readonly sample: PublicSample; readonly steps: number }) {
  const shown = useTyped(sample?.text ?? '');
  if (sample === null) return null;
  return (
    <figure class="sample writing">
      <figcaption>
        What it writes after step {countText(sample.committedSteps)}
        {sample.committedSteps < NOISE * steps ? ', while it has only begun to learn' : ''}:
      </figcaption>
      <blockquote>
        <span class="hidden">{`${sample.prompt}${sample.text}`}</span>
        <span aria-hidden="true">
          <strong>{sample.prompt}</strong>
          {sample.text.slice(0, shown)}
          {/* Its room is there from the beginning: nothing below moves. */}
          <span class="unwritten">{sample.text.slice(shown)}</span>
        </span>
      </blockquote>
    </figure>
  );
}

/** How many characters are there by now; only while somebody looks. */
function useTyped(text: string): number {
  const [shown, show] = useState(0);
  useEffect(() => {
    const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
    show(isStill ? text.length : 0);
    if (isStill || text === '') return;
    let typed = 0;
    const timer = setInterval(() => {
      if (document.visibilityState === 'hidden') return;
      typed = Math.min(text.length, typed + TICK_CHARACTERS);
      show(typed);
      if (typed === text.length) clearInterval(timer);
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [text]);
  return shown;
}
