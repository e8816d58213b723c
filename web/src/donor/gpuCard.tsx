/** Whether this browser's GPU can take part, why not, and what to do about it. */
import type { ComponentProps } from 'preact';
import { adapterText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { type BrowserName, GPU_ADVICE, type GpuFound, type Machine } from './machine.ts';
import { TrialPart } from './trialCard.tsx';

const WHY: Readonly<Record<Extract<GpuFound, { kind: 'missing' }>['why'], string>> = {
  insecure: 'A browser gives its GPU only to secure addresses: https, or localhost.',
  noWebGpu: 'This browser has no WebGPU, or it’s switched off. Without it a page can’t use the GPU.',
  noAdapter: 'This browser has WebGPU but offers no GPU: hardware acceleration is off, or the driver is blocked.',
};

interface GpuProps extends ComponentProps<typeof TrialPart> {
  readonly machine: Machine;
}

export function GpuCard({ machine, ...trial }: GpuProps) {
  const { gpu } = machine;
  return (
    <section class="card" aria-labelledby="gpu">
      <div class="live-head">
        <h2 id="gpu">Your GPU</h2>
        {gpu.kind === 'found' && <Chip tone="good" glyph="✓" word="Ready" />}
        {gpu.kind === 'missing' && <Chip tone="bad" glyph="✕" word="Can’t be used here" />}
        {gpu.kind === 'unknown' && <Chip tone="calm" glyph="◔" word="Looking" />}
      </div>
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
    </section>
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
