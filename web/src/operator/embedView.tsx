/** A run in a frame on another site: what is trained, how it goes, and a way to help that opens a tab of its own. Pure. */
import type { About } from '../../../swarm/messages/about.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { invitedLink } from '../page/ask.ts';
import { lossText, seenText } from '../page/format.ts';
import { Chip, StepProgress } from '../page/parts.tsx';
import { CountedShoal, trainingText } from '../page/shoal.tsx';
import { PHASES } from './signs.ts';

export interface EmbedState {
  readonly status: PublicStatus | null;
  readonly about: About | null;
  readonly problem: string | null;
  /** When the server last said how the run is; null: it has not. */
  readonly seenAtMs: number | null;
  readonly invite: string | null;
}

export function EmbedView({ status, about, problem, seenAtMs, invite }: EmbedState) {
  if (status === null)
    return (
      <main class="embed">
        <h1>Shoal</h1>
        <p>{problem ?? 'Asking the server how the run is.'}</p>
      </main>
    );
  const { run, phase, committedSteps, steps, loss, donors } = status;
  const isOver = phase === 'finished';
  return (
    <main class={problem === null ? 'embed' : 'embed stale'}>
      <CountedShoal status={status} about={about} isOld={problem !== null} />
      <div class="live-head">
        <h1>{run}</h1>
        {problem === null ? <Chip {...PHASES[phase]} /> : <Chip tone="calm" glyph="↻" word="When last seen" />}
      </div>
      <p class="soft small">
        {about?.card?.purpose ||
          (isOver
            ? 'Browsers trained this language model together.'
            : 'Many browsers train this language model together.')}
      </p>
      <StepProgress
        done={committedSteps}
        steps={steps}
        time={status.time}
        note={loss === null ? '' : `loss ${lossText(loss)}`}
      />
      {(!isOver || problem !== null) && (
        <p class="soft small">{problem === null ? `${trainingText(donors)}.` : `${problem} ${seenText(seenAtMs)}`}</p>
      )}
      <div class="buttons">
        <a class="donate" href={invitedLink('/', invite)} target="_blank" rel="noopener">
          {isOver ? 'See what came of it' : 'Donate'}
          <span class="hidden"> (in a new tab)</span>
        </a>
        <span class="soft small">Nothing runs in this frame.</span>
      </div>
    </main>
  );
}
