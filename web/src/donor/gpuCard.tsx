/** Whether this browser's GPU can take part, why not, and what to do about it. */
import type { ComponentProps } from 'preact';
import { durationText } from '../../../swarm/quantityText.ts';
import { adapterText, countText, rateText } from '../page/format.ts';
import { Card, Chip } from '../page/parts.tsx';
import type { PageActions } from './actions.ts';
import { type BrowserName, GPU_ADVICE, type GpuFound, type Machine } from './machine.ts';
import { aloneSeconds, pagesPerMinute, TRIAL_SECONDS, type Trial } from './trial.ts';

const WHY: Readonly<Record<Extract<GpuFound, { kind: 'missing' }>['why'], string>> = {
  insecure: 'A browser gives its GPU only to secure addresses: https, or localhost.',
  noWebGpu: 'This browser has no WebGPU, or it’s switched off. Without it a page can’t use the GPU.',
  noAdapter: 'This browser has WebGPU but offers no GPU: hardware acceleration is off, or the driver is blocked.',
};

/** The speed test as a person sees it: one button, ten seconds, and what the number means. */
interface TrialProps {
  readonly trial: Trial;
  /** Of the run, as far as it is known. */
  readonly committedSteps: number;
  readonly page: PageActions;
}

function TrialPart({ trial, committedSteps, page }: TrialProps) {
  const isRunning = trial.kind === 'running';
  return (
    <div class="trial">
      <div class="buttons">
        <button type="button" onClick={isRunning ? page.stopTrial : page.trySpeed}>
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

interface GpuProps extends ComponentProps<typeof TrialPart> {
  readonly machine: Machine;
}

export function GpuCard({ machine, ...trial }: GpuProps) {
  const { gpu } = machine;
  return (
    <Card
      id="gpu"
      title="Your GPU"
      beside={
        <>
          {gpu.kind === 'found' && <Chip tone="good" glyph="✓" word="Ready" />}
          {gpu.kind === 'missing' && <Chip tone="bad" glyph="✕" word="Can’t be used here" />}
          {gpu.kind === 'unknown' && <Chip tone="calm" glyph="◔" word="Looking" />}
        </>
      }
    >
      {gpu.kind === 'found' && (
        <>
          <p class="adapter">{adapterText(gpu.adapter)}</p>
          {gpu.adapter.software && <SoftwareNotice />}
          <TrialPart {...trial} />
        </>
      )}
      {gpu.kind === 'missing' && (
        <>
          <p>{WHY[gpu.why]}</p>
          {gpu.why !== 'insecure' && <Advice browser={machine.browser} />}
        </>
      )}
      {gpu.kind === 'unknown' && <p class="soft">Asking the browser.</p>}
    </Card>
  );
}

export function SoftwareNotice() {
  return (
    <p class="notice">
      <span aria-hidden="true">▲ </span>
      The browser computes on the processor here (a software adapter), many times slower than on a GPU. It still helps.
      If this computer has a GPU, switch on hardware acceleration in the browser’s settings.
    </p>
  );
}

/** This browser's first. */
function Advice({ browser }: { browser: BrowserName | null }) {
  const names = Object.keys(GPU_ADVICE) as BrowserName[]; // the keys of the table
  const others = names.filter((name) => name !== browser);
  return (
    <>
      {browser && (
        <p>
          <strong>What to do in {browser}:</strong> {GPU_ADVICE[browser]}
        </p>
      )}
      <details>
        <summary>{browser ? 'In other browsers' : 'What to do'}</summary>
        <dl class="facts">
          {others.map((name) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{GPU_ADVICE[name]}</dd>
            </div>
          ))}
        </dl>
      </details>
    </>
  );
}
