/** What a run is, in words for who has never heard of it: what its operator wrote, who is here, how far it is. */
import type { About } from '../../../swarm/messages/about.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { countText, rateText } from '../page/format.ts';

interface RunWordsProps {
  readonly status: PublicStatus | null;
  readonly about: About | null;
}

export function RunWords({ status, about }: RunWordsProps) {
  const card = about?.card ?? null;
  return (
    <>
      <p class="lede">
        {card?.purpose ||
          'Many browsers train one language model together, each with a small part of it. Yours can, too.'}
      </p>
      {card && (card.text !== '' || card.licence !== '' || card.link !== '') && (
        <p class="soft small">
          {card.text !== '' && <>Text: {card.text}. </>}
          {card.licence !== '' && (
            <>
              Licence of the model: <span class="whole">{card.licence}</span>.{' '}
            </>
          )}
          {card.link !== '' && (
            <a href={card.link} target="_blank" rel="noopener noreferrer nofollow">
              More about it (in a new tab)
            </a>
          )}
        </p>
      )}
      {status && (
        <p class="here">
          <strong>{hereText(status)}</strong> <span class="whole">{progressText(status, about)}</span>
        </p>
      )}
    </>
  );
}

function hereText({ phase, donors, committedSteps }: PublicStatus): string {
  if (phase === 'finished') return 'Done.';
  if (phase === 'paused') return 'Paused by its operator.';
  if (donors === 0)
    return committedSteps === 0
      ? 'Many browsers can train it together. Yours could be the first.'
      : 'Nobody is training it right now. It goes on as soon as you join.';
  return donors === 1 ? 'One GPU is training it right now.' : `${countText(donors)} GPUs are training it right now.`;
}

function progressText({ committedSteps, steps }: PublicStatus, about: About | null): string {
  const size = about === null ? '' : `, ${rateText(about.parameters)} parameters`;
  return `Step ${countText(committedSteps)} of ${countText(steps)}${size}.`;
}
