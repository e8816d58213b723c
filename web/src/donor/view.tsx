/** The donor's page as a pure function of its state. */

import type { Limits } from '../../../swarm/limits.ts';
import type { DonorStatus } from '../gpu/protocol.ts';
import { adapterText, bytesText, countText, layersText, lossText, NOTHING, rateText } from '../page/format.ts';
import { Banner, Chip, Shoal, Stat, StepProgress } from '../page/parts.tsx';
import { LimitsForm } from './limitsForm.tsx';
import { failureText, headlineOf } from './sentences.ts';
import { contributedTokens, type DonorState, type FailureReason, isMember, mayDonate, ownEntry } from './state.ts';

export interface DonorActions {
  donate(): void;
  ask(what: 'pause' | 'resume' | 'leave'): void;
  leaveNow(): void;
  limit(limits: Limits): void;
}

interface ViewProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

export function DonorView({ state, actions }: ViewProps) {
  const isRunning = !mayDonate(state);
  return (
    <>
      <Banner page="Donate" />
      <main class="narrow">
        {isRunning ? <Running state={state} actions={actions} /> : <Invitation state={state} actions={actions} />}
        <LimitsForm limits={state.limits} onChange={(limits) => actions.limit(limits)} />
        {isRunning ? (
          <details class="card">
            <summary>What runs here, and how to stop it</summary>
            <Facts />
          </details>
        ) : (
          <section class="card" aria-labelledby="facts">
            <h2 id="facts">What will happen</h2>
            <Facts />
          </section>
        )}
      </main>
    </>
  );
}

function Invitation({ state, actions }: ViewProps) {
  const { phase } = state;
  const isBroken = phase.kind === 'failed' && ['insecure', 'noWebGpu', 'noWebRtc'].includes(phase.reason);
  return (
    <section class="hero">
      <Shoal />
      <h1>Lend your GPU to a training run</h1>
      <p class="lede">
        Many browsers, each with a part of one language model, train it together. Press the button and this tab computes
        a part, until you pause, leave or close it.
      </p>
      <Outcome state={state} />
      <button type="button" class="primary large" disabled={isBroken} onClick={() => actions.donate()}>
        Donate this GPU
      </button>
    </section>
  );
}

/** How the last visit of this tab to the swarm ended; always there, so that screen readers hear it change. */
function Outcome({ state }: { state: DonorState }) {
  const { phase } = state;
  const tokens = contributedTokens(state);
  return (
    <div role="status" class="outcome">
      {phase.kind === 'failed' && <FailureNotice reason={phase.reason} detail={phase.detail} />}
      {phase.kind === 'left' && (
        <div class="notice">
          <p>
            {headlineOf(state).sentence}
            {tokens > 0 && ` You contributed ${countText(tokens)} tokens: thank you.`}
          </p>
        </div>
      )}
    </div>
  );
}

function FailureNotice({ reason, detail }: { reason: FailureReason; detail: string }) {
  const { what, advice } = failureText(reason);
  const rest = detail.replace(what, '').trim(); // the server's detail of a refusal opens with the same sentence
  return (
    <div class="notice bad">
      <p>
        <span aria-hidden="true">✕ </span>
        <strong>{what}</strong> {advice}
      </p>
      {rest && <p class="detail">{rest}</p>}
    </div>
  );
}

function Running({ state, actions }: ViewProps) {
  const { snapshot, adapter, run } = state;
  const { tone, glyph, word, sentence } = headlineOf(state);
  return (
    <section class="card live" aria-labelledby="state">
      <div class="live-head">
        <h1 id="state">{run ? run.name : 'Your GPU in the swarm'}</h1>
        <Chip tone={tone} glyph={glyph} word={word} announced />
      </div>
      <p class="sentence">{sentence}</p>
      <StepProgress
        done={snapshot?.committedSteps ?? null}
        steps={snapshot?.steps ?? run?.steps ?? 0}
        note={snapshot ? `${snapshot.donors.length} ${snapshot.donors.length === 1 ? 'donor' : 'donors'}` : NOTHING}
      />
      <Numbers state={state} />
      <Ways state={state} />
      <Buttons state={state} actions={actions} />
      <p class="soft small adapter">
        {adapter ? `Your GPU: ${adapterText(adapter)}` : 'Asking the browser for a GPU.'}
      </p>
      {adapter?.software && (
        <p class="notice">
          <span aria-hidden="true">▲ </span>
          This is a software adapter: the browser computes on the CPU, many times slower than on a GPU. It helps, and
          its results are as good; where this computer has a GPU, hardware acceleration may be switched off in the
          browser's settings.
        </p>
      )}
    </section>
  );
}

/** The stages of the plan that is being prepared or done; the worker knows them a moment before the snapshot does. */
function partOf(state: DonorState): DonorStatus['stages'] {
  const { phase, snapshot, status } = state;
  const isPlanned = phase.kind === 'joined' || phase.kind === 'computing';
  const isHeld = snapshot?.phase === 'paused' || snapshot?.phase === 'failed';
  if (!isPlanned || isHeld) return [];
  return status?.stages.length ? status.stages : (ownEntry(state)?.stages ?? []);
}

function Numbers({ state }: { state: DonorState }) {
  const { snapshot, status } = state;
  const stages = partOf(state);
  const stageCount = Math.max(0, ...(snapshot?.donors ?? []).flatMap(({ stages: all }) => all.map((s) => s.stage + 1)));
  const [first] = stages;
  const place =
    stages.length === 1 && first ? `${first.stage + 1}${stageCount ? ` of ${stageCount}` : ''}` : stages.length;
  return (
    <dl class="stats">
      <Stat label="Loss" value={lossText(snapshot?.loss ?? null)} note="of the newest step" />
      <Stat
        label={stages.length > 1 ? 'Your stages' : 'Your stage'}
        value={stages.length === 0 ? NOTHING : String(place)}
        note={stages.map(({ layers }) => layersText(layers)).join(', ')}
      />
      <Stat label="You contributed" value={countText(contributedTokens(state))} note="tokens" />
      <Stat
        label="GPU memory"
        value={status && status.gpuMemoryBytes > 0 ? bytesText(status.gpuMemoryBytes) : NOTHING}
        note="used here"
      />
      <Stat label="The swarm's speed" value={rateText(snapshot?.tokensPerSecond ?? null)} note="tokens a second" />
      <Stat label="Held-out loss" value={lossText(snapshot?.evaluationLoss ?? null)} note="on unseen text" />
    </dl>
  );
}

/** How this tab reaches the others: what is relayed costs the server's line, and time. */
function Ways({ state: { links } }: { state: DonorState }) {
  const relayed = links.filter(({ route }) => route === 'relayed').length;
  if (links.length === 0) return null;
  const direct = links.length - relayed;
  return (
    <p class="soft small">
      Your connections: {direct} direct, {relayed} through the server
      {relayed > 0 && ', which are slower; this page keeps trying for a direct one'}.
    </p>
  );
}

function Buttons({ state, actions }: ViewProps) {
  const { phase, pending } = state;
  if (pending === 'leave') {
    return (
      <div class="buttons">
        <button type="button" onClick={() => actions.leaveNow()}>
          Leave now
        </button>
        <span class="soft small">without waiting; the swarm may have to repeat some steps</span>
      </div>
    );
  }
  const isPaused = phase.kind === 'paused';
  const finished = phase.kind === 'spare' && phase.finished;
  return (
    <div class="buttons">
      <button
        type="button"
        disabled={!isMember(state) || finished || pending !== null}
        onClick={() => actions.ask(isPaused ? 'resume' : 'pause')}
      >
        {isPaused ? 'Resume' : 'Pause'}
      </button>
      <button type="button" onClick={() => actions.ask('leave')}>
        Leave
      </button>
    </div>
  );
}

const FACTS = [
  [
    'What runs',
    'GPU programs (WebGPU shaders) that come with this page and compute a part of a language model. They see the training text and the model, and nothing else of your computer: no files, no other tabs.',
  ],
  [
    'What it costs',
    'Your GPU works as hard as it can, or as your limits say: power, heat, perhaps a loud fan. Data flows up and down all the time, from some megabytes a minute for a small model to much more for a large one. Mind a battery or a metered connection.',
  ],
  [
    'What others see',
    'Donors are connected directly, so the other donors of the run, and the server, can see your IP address and the name of your GPU.',
  ],
  [
    'How to stop',
    'Pause and Leave hand your part over first; closing the tab stops everything at once. Nothing is installed, and nothing starts by itself the next time.',
  ],
] as const;

function Facts() {
  return (
    <dl class="facts">
      {FACTS.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
