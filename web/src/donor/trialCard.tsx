/** The speed test as a person sees it: one button, ten seconds, and what the number means. */
import { durationText } from '../../../swarm/quantityText.ts';
import { countText, rateText } from '../page/format.ts';
import { aloneSeconds, pagesPerMinute, TRIAL_SECONDS, type Trial } from './trial.ts';

interface TrialProps {
  readonly trial: Trial;
  /** Of the run, as far as it is known. */
  readonly committedSteps: number;
  readonly onTry: () => void;
  readonly onStop: () => void;
}

export function TrialPart({ trial, committedSteps, onTry, onStop }: TrialProps) {
  const isRunning = trial.kind === 'running';
  return (
    <div class="trial">
      <div class="buttons">
        <button type="button" onClick={isRunning ? onStop : onTry}>
          {isRunning ? 'Stop the test' : trial.kind === 'none' ? 'Test its speed' : 'Test again'}
        </button>
        <span class="soft small">
          {isRunning
            ? 'Your GPU works at full load now.'
            : `Takes ${TRIAL_SECONDS} seconds once your GPU is ready. Nothing is sent, and you don’t join.`}
        </span>
      </div>
      {trial.kind !== 'none' && (
        <progress
          class={isRunning ? '' : 'off'}
          aria-label="Speed test"
          max={TRIAL_SECONDS}
          value={isRunning ? trial.seconds : 0}
        />
      )}
      <div role="status" class={trial.kind === 'none' ? '' : 'trial-answer'}>
        <Answer trial={trial} committedSteps={committedSteps} />
      </div>
    </div>
  );
}

function Answer({ trial, committedSteps }: Pick<TrialProps, 'trial' | 'committedSteps'>) {
  switch (trial.kind) {
    case 'none':
      return null;
    case 'running':
      return trial.tokensPerSecond === null ? (
        <p>Getting your GPU ready.</p>
      ) : (
        <p>So far: {rateText(trial.tokensPerSecond)} tokens a second.</p>
      );
    case 'failed':
      return (
        <p>
          <span aria-hidden="true">✕ </span>The test couldn’t run. {trial.sentence}
        </p>
      );
    case 'done': {
      const { tokensPerSecond, about } = trial;
      const pages = pagesPerMinute(tokensPerSecond, about);
      const alone = aloneSeconds(tokensPerSecond, about, committedSteps);
      return (
        <p>
          <strong>About {rateText(tokensPerSecond)} tokens a second</strong> with this model. That is{' '}
          {countText(Math.max(1, Math.round(pages)))} {pages < 1.5 ? 'page' : 'pages'} of a book a minute, at full load.{' '}
          {alone > 0 && `On its own your GPU would need ${durationText(alone)} for the rest of the run.`}
        </p>
      );
    }
  }
}
