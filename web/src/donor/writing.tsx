/** What the newest saved state of the model writes, typing itself out; at once where nothing is to move. */
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { PublicSample } from '../../../swarm/messages/about.ts';
import { countText } from '../page/format.ts';

/** At most four redraws a second, as everywhere. */
const TICK_MS = 250;
const TICK_CHARACTERS = 8;

/** Lines of the box, of which a style sheet has fewer where windows are small. */
const LINES = '--sample-lines';
const MOST_LINES = 4;

/** Share of a run before which what the model writes is mostly noise. */
const NOISE = 0.05;

/** Of a saved state; its room is there before its text. */
export interface Sample {
  /** The newest saved state: after so many steps; 0: nothing is saved, and nothing comes. */
  readonly ofStep: number;
  /** Null: it has not come. */
  readonly written: PublicSample;
  /** The server does not write one. */
  readonly isRefused: boolean;
}

/** `steps`: of the whole run. */
export function Writing({ sample: { ofStep, written, isRefused }, steps }: { sample: Sample; steps: number }) {
  const shown = useTyped(written?.text ?? '');
  const box = useWholeLines();
  if (ofStep === 0) return null;
  const after = written?.committedSteps ?? ofStep;
  return (
    <figure class="sample writing">
      <figcaption>
        What it writes after step {countText(after)}
        {after < NOISE * steps ? ', while it has only begun to learn' : ''}:
      </figcaption>
      <blockquote ref={box}>
        {written ? <Typed written={written} shown={shown} /> : isRefused && 'Nothing to read right now.'}
      </blockquote>
    </figure>
  );
}

function Typed({ written: { prompt, text }, shown }: { written: NonNullable<PublicSample>; shown: number }) {
  return (
    <>
      <span class="hidden">{`${prompt}${text}`}</span>
      <span aria-hidden="true">
        <strong>{prompt}</strong>
        {text.slice(0, shown)}
      </span>
    </>
  );
}

/** A box that the window's edge would cut in the middle of a line has only the lines that are in sight, or lies below it. */
function useWholeLines(): RefObject<HTMLQuoteElement | null> {
  const box = useRef<HTMLQuoteElement>(null);
  useLayoutEffect(() => {
    const takeRoom = (): void => {
      const { current } = box;
      if (current === null) return;
      current.style.removeProperty(LINES);
      current.style.removeProperty('margin-top');
      const { lineHeight, paddingTop } = getComputedStyle(current);
      const most = Number(getComputedStyle(current).getPropertyValue(LINES)) || MOST_LINES;
      const top = current.getBoundingClientRect().top + scrollY;
      const seen = (innerHeight - top - Number.parseFloat(paddingTop)) / Number.parseFloat(lineHeight);
      if (seen >= 1 && seen < most) current.style.setProperty(LINES, String(Math.floor(seen)));
      if (seen > 0 && seen < 1) current.style.marginTop = `${innerHeight - top}px`;
    };
    takeRoom();
    addEventListener('resize', takeRoom);
    return () => removeEventListener('resize', takeRoom);
  });
  return box;
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
