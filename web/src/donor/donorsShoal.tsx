/** The donors of the run as fish, and what one's own has reached. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { About } from '../../../swarm/messages/about.ts';
import { monotonicMs } from '../page/clock.ts';
import { countText } from '../page/format.ts';
import { type Fish, Shoal } from '../page/shoal.tsx';
import { type DonorState, givenTokens } from './state.ts';

interface DonorsShoalProps {
  readonly state: DonorState;
  readonly about: About | null;
  /** They are those who were last seen. */
  readonly isOld: boolean;
}

/** Characters of a printed page, and of a token where the tokenizer is not one of bytes. */
const [PAGE_CHARACTERS, TOKEN_CHARACTERS] = [1_800, 4];
const BYTE_VOCABULARY = 256;
const PAGES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const HOUR_SECONDS = 3_600;

/** Printed pages that so many tokens are about. */
export const pagesOf = (tokens: number, vocabulary: number): number =>
  (tokens * (vocabulary <= BYTE_VOCABULARY ? 1 : TOKEN_CHARACTERS)) / PAGE_CHARACTERS;

interface Given {
  /** By all visits. */
  readonly pages: number;
  /** Training in this tab since it was opened. */
  readonly seconds: number;
  /** The run is finished: nothing comes next. */
  readonly isOver?: boolean;
}

/** What a donor has reached, in things that people know, and what comes next; null: no step is done yet. */
export function milestoneText({ pages, seconds, isOver = false }: Given): string | null {
  if (pages <= 0) return null;
  const reached = PAGES.findLast((each) => pages >= each);
  const next = isOver ? undefined : PAGES.find((each) => pages < each);
  const hours = Math.floor(seconds / HOUR_SECONDS);
  const done =
    reached === undefined
      ? 'Your first step is part of the model'
      : `The model has read ${pagesText(reached)} with your GPU`;
  const lasted =
    hours === 0 ? '' : `, and you have trained for ${hours === 1 ? 'an hour' : `${countText(hours)} hours`}`;
  return `${done}${lasted}.${next === undefined ? '' : ` Next: ${pagesText(next)}.`}`;
}

const pagesText = (pages: number): string => (pages === 1 ? 'a book page' : `${countText(pages)} book pages`);

export function DonorsShoal({ state, about, isOld }: DonorsShoalProps) {
  const { snapshot, me } = state;
  const fish = (snapshot?.donors ?? []).map(
    ({ peer, state: own }): Fish => ({
      ...{ id: peer, isTraining: own === 'computing', isComing: own === 'joining', isOwn: peer === me },
    }),
  );
  const isTraining = !isOld && fish.some((each) => each.isOwn && each.isTraining);
  const seconds = useTrainingSeconds(state.phase.kind === 'computing');
  const vocabulary = about?.model.vocab_size;
  const pages = typeof vocabulary === 'number' ? pagesOf(givenTokens(state), vocabulary) : 0;
  const milestone = milestoneText({ pages, seconds, isOver: snapshot?.phase === 'finished' });
  return (
    <div class="waters">
      <Shoal fish={fish} steps={snapshot?.committedSteps ?? 0} stepsPerSecond={null} />
      <p class="soft small waters-words">
        {isTraining && 'Yours swims in the ring.'}
        {state.phase.kind === 'spare' && 'Yours waits at the edge, in the ring.'}
        {milestone !== null && (
          <>
            {' '}
            <span class="milestone">
              <span aria-hidden="true">★ </span>
              {milestone}
            </span>
          </>
        )}
      </p>
    </div>
  );
}

/** Since this page was opened; read again whenever something else is drawn. */
function useTrainingSeconds(isTraining: boolean): number {
  const [before, add] = useState(0);
  const since = useRef<number | null>(null);
  useEffect(() => {
    if (!isTraining) return;
    const startMs = monotonicMs();
    since.current = startMs;
    return () => {
      since.current = null;
      add((sum) => sum + (monotonicMs() - startMs) / 1_000);
    };
  }, [isTraining]);
  return before + (since.current === null ? 0 : (monotonicMs() - since.current) / 1_000);
}
