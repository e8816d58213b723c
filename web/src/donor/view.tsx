/** The donor's page as a function of its state. */
import { countText, timeText } from '../page/format.ts';
import { Banner, Shoal } from '../page/parts.tsx';
import type { DonorActions, PageActions } from './actions.ts';
import { CreditCard } from './creditCard.tsx';
import { Facts, type FactsProps } from './facts.tsx';
import { GpuCard } from './gpuCard.tsx';
import { Help } from './help.tsx';
import { donorKey, knownKey } from './keeper.ts';
import { useKeptFocus } from './keptFocus.ts';
import { LimitsForm } from './limitsForm.tsx';
import { MemberCard } from './memberCard.tsx';
import { type FailureReason, isMember, mayDonate } from './phase.ts';
import { RunCard, useStatus } from './runCard.tsx';
import { Running } from './running.tsx';
import { failureText, headlineOf } from './sentences.ts';
import { type DonorState, givenTokens, isBarred } from './state.ts';

interface ViewProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

interface PageProps extends ViewProps {
  readonly page: PageActions;
  readonly invite: string | null;
}

export function DonorView({ state, actions, page, invite }: PageProps) {
  const isRunning = !mayDonate(state);
  const status = useStatus(invite, isRunning);
  useKeptFocus();
  const { minuteBytes, preferences, machine } = state;
  const { localNetwork } = machine;
  const facts: FactsProps = {
    ...{ host: location.host, minuteBytes, relayOnly: preferences.relayOnly, localNetwork },
    runMinuteBytes: status?.minuteBytes ?? null,
  };
  return (
    <>
      <Banner page="Donate" invite={invite} />
      <main class="narrow">
        {isRunning ? <Running state={state} actions={actions} /> : <Invitation state={state} actions={actions} />}
        {isRunning && <OtherTabs count={state.otherTabs} />}
        {!isRunning && (
          <GpuCard
            machine={state.machine}
            trial={state.trial}
            committedSteps={status?.committedSteps ?? 0}
            onTry={() => page.trySpeed()}
            onStop={() => page.stopTrial()}
          />
        )}
        <LimitsForm
          state={state}
          onLimits={(limits) => actions.limit(limits)}
          onPreferences={(chosen) => actions.prefer(chosen)}
        />
        <RunCard
          status={status}
          invite={invite}
          isRunning={isRunning}
          onDownload={isMember(state) ? () => actions.download() : null}
        />
        {isRunning ? (
          <details class="card">
            <summary>What runs here, and how to stop it</summary>
            <Facts {...facts} />
          </details>
        ) : (
          <section class="card" aria-labelledby="facts">
            <h2 id="facts">What will happen</h2>
            <Facts {...facts} />
          </section>
        )}
        <CreditCard credit={state.credit} today={state.surroundings.day} forget={() => page.forgetCredit()} />
        <MemberCard invite={invite} knownKey={knownKey} ownKey={donorKey} />
        <Help state={state} />
      </main>
    </>
  );
}

function Invitation({ state, actions }: ViewProps) {
  const { phase } = state;
  const isBroken = phase.kind === 'failed' && ['insecure', 'noWebGpu', 'noWebRtc'].includes(phase.reason);
  const barred = isBarred(state);
  return (
    <section class="hero">
      <Shoal />
      <h1 tabIndex={-1}>Lend your GPU to a training run</h1>
      <p class="lede">
        Many browsers, each with a part of one language model, train it together. Press the button and this tab computes
        a part, until you pause, leave or close it.
      </p>
      <Outcome state={state} />
      <OtherTabs count={state.otherTabs} />
      {barred && (
        <div class="notice">
          <p>This looks like a phone. Computing makes it hot and empties the battery, so phones are off by default.</p>
          <button type="button" onClick={() => actions.prefer({ ...state.preferences, phone: true })}>
            Allow this phone
          </button>
        </div>
      )}
      <button type="button" class="primary large" disabled={isBroken || barred} onClick={() => actions.donate()}>
        Donate this GPU
      </button>
    </section>
  );
}

/** How the last visit of this tab to the swarm ended; always there, so that screen readers hear it change. */
function Outcome({ state }: { state: DonorState }) {
  const { phase } = state;
  const tokens = givenTokens(state);
  return (
    <div role="status" class="outcome">
      {phase.kind === 'idle' && state.incident && (
        <p class="notice">
          {timeText(state.incident.atMs)}: {state.incident.text}
        </p>
      )}
      {phase.kind === 'failed' && <FailureNotice reason={phase.reason} detail={phase.detail} />}
      {phase.kind === 'left' && (
        <div class="notice">
          <p>
            {headlineOf(state).sentence}
            {tokens > 0 && ` You contributed ${countText(tokens)} tokens to it: thank you.`}
          </p>
        </div>
      )}
    </div>
  );
}

function OtherTabs({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p class="notice" role="status">
      <span aria-hidden="true">▲ </span>
      {count === 1 ? 'Another tab' : `${count} other tabs`} of this browser already {count === 1 ? 'donates' : 'donate'}{' '}
      this GPU. They share it, so a second one adds next to nothing.
    </p>
  );
}

function FailureNotice({ reason, detail }: { reason: FailureReason; detail: string }) {
  const { what, advice } = failureText(reason);
  return (
    <div class="notice bad">
      <p>
        <span aria-hidden="true">✕ </span>
        <strong>{what}</strong> {advice}
      </p>
      {/* A refusal's sentence says it all; for whoever runs the server the rest stands in the log. */}
      {advice && detail && <p class="detail">{detail}</p>}
    </div>
  );
}
