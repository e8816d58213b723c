/** What a run is, in words for who has never heard of it: what its operator wrote, who is here, how far it is. */
import { useState } from 'preact/hooks';
import type { About, RunCard } from '../../../swarm/messages/about.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { durationText } from '../../../swarm/quantityText.ts';
import { aboutText, countText } from '../page/format.ts';
import { isThisComputer } from '../page/thisComputer.ts';

interface RunWordsProps {
  readonly status: PublicStatus | null;
  readonly about: About | null;
  /** Who reads it is not let in. */
  readonly isShut: boolean;
  /** The server does not answer: all of it is old. */
  readonly isLost: boolean;
}

/**
 * What its operator wrote is folded past so many characters: what it costs and how to stop stay on the first screen. `folded`:
 * what is left of the purpose, three lines of such a window.
 */
const ROOM = {
  small: { purpose: 140, words: 80, folded: 80 },
  large: { purpose: 240, words: 160, folded: 200 },
} as const;
const IS_LARGE = '(min-width: 48rem) and (min-height: 44rem)';

/** Whole words, as many as there is room for. */
export function foldedText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const room = text.slice(0, limit + 1);
  const end = room.search(/\s\S*$/);
  return `${room.slice(0, end > 0 ? end : limit).replace(/[\s,;:–-]+$/, '')}…`;
}

export function RunWords({ status, about, isShut, isLost }: RunWordsProps) {
  return (
    <>
      <CardWords key={about?.name} about={about} isOver={status?.phase === 'finished'} />
      {status && (
        <p class="here">
          <strong>{isLost ? LOST : hereText(status, isShut)}</strong>{' '}
          <span class="whole">
            {progressText(status)} {isLost ? '' : leftText(status, about)}
          </span>
          {about && (
            <span class="whole soft small">
              {' '}
              The model is {aboutText(about.parameters)} numbers (parameters), which each step adjusts.
            </span>
          )}
        </p>
      )}
    </>
  );
}

const LOST = 'The server doesn’t answer. When it last did:';

const TRAINS = 'Many browsers train one language model together, each with a small part of it. Yours can, too.';
const TRAINED = 'Browsers trained this language model together, each with a part of it.';

function CardWords({ about, isOver }: Pick<RunWordsProps, 'about'> & { readonly isOver: boolean }) {
  const [isOpen, open] = useState(false);
  const card = about?.card ?? null;
  const room = matchMedia(IS_LARGE).matches ? ROOM.large : ROOM.small;
  const words = card === null ? '' : `${card.by}${card.text}${card.licence}`;
  const isLong = card !== null && (card.purpose.length > room.purpose || words.length > room.words);
  const isFolded = isLong && !isOpen;
  return (
    <>
      <p class={isFolded ? 'lede folded' : 'lede'}>
        {card?.purpose ? (isFolded ? foldedText(card.purpose, room.folded) : card.purpose) : isOver ? TRAINED : TRAINS}
      </p>
      {about && (
        <p class="soft small">
          {byText(card, location.host)} {card && !isFolded && <Particulars card={card} />}
        </p>
      )}
      {isLong && (
        <button type="button" class="plain small" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
          {isOpen ? 'Less about this run' : 'More about this run'}
        </button>
      )}
    </>
  );
}

function Particulars({ card: { text, licence, link } }: { readonly card: RunCard }) {
  return (
    <>
      {text !== '' && <>Text: {text}. </>}
      {licence !== '' && (
        <>
          Licence of the model: <span class="whole">{licence}</span>.{' '}
        </>
      )}
      {link !== '' && (
        <a href={link} target="_blank" rel="noopener noreferrer nofollow">
          More about it (in a new tab)
        </a>
      )}
    </>
  );
}

export function hereText(
  {
    phase,
    donors,
    committedSteps,
    cannotSave,
  }: Pick<PublicStatus, 'phase' | 'donors' | 'committedSteps' | 'cannotSave'>,
  isShut: boolean,
): string {
  if (phase === 'finished') return 'Done.';
  if (cannotSave) return 'It waits: the server can’t save right now.';
  if (phase === 'paused') return 'Paused by its operator.';
  if (donors === 0 && isShut) return 'Nobody is training it right now.';
  if (donors === 0)
    return committedSteps === 0
      ? 'Nobody is training it yet. Your GPU could be the first.'
      : 'Nobody is training it right now. It goes on as soon as you join.';
  return donors === 1 ? 'One GPU is training it right now.' : `${countText(donors)} GPUs are training it right now.`;
}

/** Who stands behind it, in the operator's words; else whoever the address belongs to. */
export function byText(card: RunCard | null, host: string): string {
  if (card !== null && card.by !== '') return `Run by ${card.by}.`;
  return isThisComputer(host) ? 'You run it yourself, from this computer.' : `Run by whoever set up ${host}.`;
}

const progressText = ({ committedSteps, steps, time }: PublicStatus): string =>
  time ? `Step ${countText(committedSteps)}.` : `Step ${countText(committedSteps)} of ${countText(steps)}.`;

/** At the pace of the newest steps; empty where nobody trains. */
export function leftText(
  {
    committedSteps,
    steps,
    tokensPerSecond,
    phase,
    time,
  }: Pick<PublicStatus, 'committedSteps' | 'steps' | 'tokensPerSecond' | 'phase' | 'time'>,
  about: Pick<About, 'stepTargets'> | null,
): string {
  if (time && phase !== 'finished')
    return `${durationText(Math.max(0, time.seconds - time.usedSeconds))} of training left.`;
  if (about === null || tokensPerSecond === null || tokensPerSecond <= 0 || phase === 'finished') return '';
  return `About ${durationText(((steps - committedSteps) * about.stepTargets) / tokensPerSecond)} left at this pace.`;
}
