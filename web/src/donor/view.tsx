/** The donor's page as a function of its state. */
import { useEffect } from 'preact/hooks';
import { Banner } from '../page/parts.tsx';
import type { DonorActions, PageActions } from './actions.ts';
import { CreditCard } from './creditCard.tsx';
import { downloadAgain } from './download.ts';
import { Ending } from './ending.tsx';
import { Facts, type FactsProps } from './facts.tsx';
import { FirstScreen, OtherTabs } from './firstScreen.tsx';
import { GpuCard } from './gpuCard.tsx';
import { Help } from './help.tsx';
import { donorKey, keptProof, knownKey } from './keeper.ts';
import { useKeptFocus } from './keptFocus.ts';
import { LimitsForm } from './limitsForm.tsx';
import { MemberCard } from './memberCard.tsx';
import { isMember, mayDonate } from './phase.ts';
import { RunCard, useAbout, useSample, useSettled, useStatus } from './runCard.tsx';
import { Running } from './running.tsx';
import { Share } from './share.tsx';
import { type DonorState, isStale } from './state.ts';
import { StatusBar } from './statusBar.tsx';

interface PageProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
  readonly page: PageActions;
  readonly invite: string | null;
}

/** Nobody is, or was, left without a place beside those who train: one more GPU may speed it up. */
const wantsMore = ({ snapshot, phase }: DonorState, isFull: boolean): boolean =>
  phase.kind !== 'spare' &&
  snapshot?.phase !== 'paused' &&
  !isFull &&
  !(snapshot?.donors.some(({ state }) => state === 'spare') ?? false);

/** Nothing changes in them until the operator, or the next run, changes it. */
const REST: ReadonlySet<string> = new Set(['paused', 'finished']);

export function DonorView({ state, actions, page, invite }: PageProps) {
  const isRunning = !mayDonate(state);
  // Reloaded after the end, it is told to come later: the next run is there when it is told.
  const awaitsNext = state.phase.kind === 'postponed' && state.phase.reason === 'runFinished';
  const { status, refusal, isAsked, isLost } = useStatus(
    invite,
    isRunning,
    `${REST.has(state.snapshot?.phase ?? '') ? 'rests' : 'runs'} ${state.snapshot?.next ?? ''}`,
    awaitsNext,
  );
  const hasNext = awaitsNext && status !== null && status.phase !== 'finished';
  useEffect(() => {
    if (hasNext) actions.askAgain();
  }, [hasNext, actions]);
  const { about, isAsked: isAboutAsked } = useAbout(invite, status?.run ?? null);
  const isOver = status?.phase === 'finished';
  // After the end, what this browser keeps of its tab is enough.
  const proof = isOver ? keptProof(status.run) : null;
  const again = proof && (() => downloadAgain(proof));
  const onDownload = isMember(state) ? () => actions.download() : again;
  const sample = useSample(invite, !isRunning || isOver, status?.run ?? '', status?.checkpointStep ?? 0);
  const isOld = isStale(state, isLost);
  useKeptFocus();
  const { minuteBytes, preferences, machine } = state;
  const { localNetwork } = machine;
  const isSettled = useSettled(isAsked && isAboutAsked && machine.gpu.kind !== 'unknown');
  const facts: FactsProps = {
    ...{ host: location.host, minuteBytes, relayOnly: preferences.relayOnly, localNetwork },
    expected: status?.minuteTraffic ?? null,
  };
  return (
    <>
      <Banner page="Donate" invite={invite} />
      {isRunning && <StatusBar state={state} actions={actions} />}
      <main class={isSettled || isRunning ? 'narrow' : 'narrow unsettled'}>
        {isRunning ? (
          <Running {...{ state, actions, about, isOld }} told={status} />
        ) : (
          <FirstScreen {...{ state, actions, status, about, sample, invite, refusal, isLost }} />
        )}
        {isRunning && <OtherTabs count={state.otherTabs} />}
        {isOver && (
          <Ending
            {...{ status, invite }}
            staysHere={isRunning}
            download={onDownload === null ? 'none' : proof === null ? 'now' : 'later'}
            sample={isRunning ? sample : null}
          />
        )}
        {!isRunning && !isOver && (
          <GpuCard
            machine={state.machine}
            trial={state.trial}
            committedSteps={status?.committedSteps ?? 0}
            onTry={() => page.trySpeed()}
            onStop={() => page.stopTrial()}
          />
        )}
        {(isRunning || !isOver) && (
          <LimitsForm
            state={state}
            onLimits={(limits) => actions.limit(limits)}
            onPreferences={(chosen) => actions.prefer(chosen)}
          />
        )}
        {(isRunning || refusal === null || status?.isBlocked) && (
          <RunCard
            {...{ status, about, invite, isRunning, onDownload }}
            isLost={isRunning ? isOld : isLost}
            snapshot={isRunning ? state.snapshot : null}
          />
        )}
        {!isOver && refusal === null && (
          <Share
            invite={invite}
            run={status?.run ?? 'a model'}
            wantsMore={wantsMore(state, (state.snapshot ?? status)?.isFull === true)}
          />
        )}
        {(isRunning || !isOver) && (
          <details class="card">
            <summary>{isRunning ? 'What runs here, and how to stop it' : 'What exactly will happen'}</summary>
            <Facts {...facts} />
          </details>
        )}
        <CreditCard
          credit={state.credit}
          today={state.surroundings.day}
          forget={() => page.forgetCredit()}
          askPlace={isMember(state) ? () => actions.place() : null}
        />
        <MemberCard invite={invite} knownKey={knownKey} ownKey={donorKey} />
        <Help state={state} />
      </main>
    </>
  );
}
