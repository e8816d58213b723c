/** The donor's page as a function of its state. */
import { Banner } from '../page/parts.tsx';
import type { DonorActions, PageActions } from './actions.ts';
import { CreditCard } from './creditCard.tsx';
import { Ending } from './ending.tsx';
import { Facts, type FactsProps } from './facts.tsx';
import { FirstScreen, OtherTabs } from './firstScreen.tsx';
import { GpuCard } from './gpuCard.tsx';
import { Help } from './help.tsx';
import { donorKey, knownKey } from './keeper.ts';
import { useKeptFocus } from './keptFocus.ts';
import { LimitsForm } from './limitsForm.tsx';
import { MemberCard } from './memberCard.tsx';
import { isMember, mayDonate } from './phase.ts';
import { RunCard, useAbout, useSample, useSettled, useStatus } from './runCard.tsx';
import { Running } from './running.tsx';
import { Share } from './share.tsx';
import type { DonorState } from './state.ts';
import { StatusBar } from './statusBar.tsx';

interface PageProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
  readonly page: PageActions;
  readonly invite: string | null;
}

/** Nobody is left without a place: one more GPU may speed it up. */
const wantsMore = ({ snapshot, phase }: DonorState): boolean =>
  phase.kind !== 'spare' &&
  snapshot?.phase !== 'paused' &&
  !(snapshot?.donors.some(({ state }) => state === 'spare') ?? false);

/** Nothing changes in them until the operator, or the next run, changes it. */
const REST: ReadonlySet<string> = new Set(['paused', 'finished']);

export function DonorView({ state, actions, page, invite }: PageProps) {
  const isRunning = !mayDonate(state);
  const { status, refusal, isAsked, isLost } = useStatus(
    invite,
    isRunning,
    REST.has(state.snapshot?.phase ?? '') ? 'rests' : 'runs',
  );
  const { about, isAsked: isAboutAsked } = useAbout(invite, status?.run ?? null);
  const isOver = status?.phase === 'finished';
  const sample = useSample(invite, !isRunning, status?.run ?? '', status?.checkpointStep ?? 0);
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
          <Running state={state} actions={actions} about={about} unseenAt={status?.evaluations.at(-1)?.[0]} />
        ) : (
          <FirstScreen {...{ state, actions, status, about, sample, invite, refusal, isLost }} />
        )}
        {isRunning && <OtherTabs count={state.otherTabs} />}
        {isOver && <Ending status={status} invite={invite} staysHere={isRunning} mayDownload={isMember(state)} />}
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
            status={status}
            about={about}
            invite={invite}
            isRunning={isRunning}
            onDownload={isMember(state) ? () => actions.download() : null}
          />
        )}
        {!isOver && refusal === null && (
          <Share invite={invite} run={status?.run ?? 'a model'} wantsMore={wantsMore(state)} />
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
