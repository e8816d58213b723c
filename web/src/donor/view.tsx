/** The donor's page as a function of its state. */
import { useEffect } from 'preact/hooks';
import { countText } from '../page/format.ts';
import { Banner, Chip, Press } from '../page/parts.tsx';
import type { DonorActions, PageActions } from './actions.ts';
import { CreditCard } from './creditCard.tsx';
import { downloadAgain } from './download.ts';
import { Ending } from './ending.tsx';
import { Facts, type FactsProps } from './facts.tsx';
import { FirstScreen, OtherTabs } from './firstScreen.tsx';
import { GpuCard } from './gpuCard.tsx';
import { Help } from './help.tsx';
import { donorKey, keptProof, knownKey } from './keeper.ts';
import { LimitsForm } from './limitsForm.tsx';
import { MemberCard } from './memberCard.tsx';
import { isMember, mayDonate } from './phase.ts';
import { RunCard, useAbout, useSample, useSettled, useStatus } from './runCard.tsx';
import { Running } from './running.tsx';
import { headlineOf, pendingSentence, waitsForCondition } from './sentences.ts';
import { Share } from './share.tsx';
import { allGivenTokens, type DonorState, hasNothingToPause, isStale } from './state.ts';

interface PageProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
  readonly page: PageActions;
  readonly invite: string | null;
}

/** Nobody is, or was, left without a place beside those who train: one more GPU may speed it up. */
const wantsMore = ({ snapshot, phase }: DonorState, status: ReturnType<typeof useStatus>['status']): boolean =>
  phase.kind !== 'spare' &&
  snapshot?.phase !== 'paused' &&
  (snapshot ?? status)?.isFull !== true &&
  !(snapshot?.donors.some(({ state }) => state === 'spare') ?? false);

/** Nothing changes in them until the operator, or the next run, changes it. */
const REST: ReadonlySet<string> = new Set(['paused', 'finished']);

/**
 * The keyboard's place. What is pressed may go with what it did, or be switched off; the focus would fall to the top of
 * the page without a word. It goes to what names the nearest part that is still there, a card's summary or the page's
 * heading.
 */
function useKeptFocus(): void {
  useEffect(() => {
    let held: { readonly element: Element; readonly card: Element | null } | null = null;
    const isGone = (element: Element): boolean => !element.isConnected || element.matches(':disabled');
    const hold = ({ target }: FocusEvent): void => {
      if (target instanceof Element) held = { element: target, card: target.closest('.card') };
    };
    // A person who looks elsewhere lets go of it. What is about to be removed is blurred first.
    const letGo = ({ target }: FocusEvent): void =>
      queueMicrotask(() => {
        if (target === held?.element && !isGone(held.element)) held = null;
      });
    const mend = (): void => {
      if (held === null || !isGone(held.element)) return;
      const { element, card } = held;
      held = null;
      const { activeElement } = document;
      if (activeElement !== document.body && activeElement !== element) return;
      const name = card?.isConnected ? card.querySelector<HTMLElement>(':scope > summary, h1[tabindex]') : null;
      (name ?? document.querySelector<HTMLElement>('main h1'))?.focus({ preventScroll: name === null });
    };
    const observer = new MutationObserver(mend);
    observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ['disabled'] });
    document.addEventListener('focusin', hold);
    document.addEventListener('focusout', letGo);
    return () => {
      observer.disconnect();
      document.removeEventListener('focusin', hold);
      document.removeEventListener('focusout', letGo);
    };
  }, []);
}

/** The one status of a tab that takes part, always in view: its state, one sentence, Pause, and all that was given. */
interface StatusBarProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

function StatusBar({ state, actions }: StatusBarProps) {
  const { tone, glyph, word, sentence } = headlineOf(state);
  const given = allGivenTokens(state);
  return (
    <section class={`status-bar ${tone}`} aria-label="Status">
      <Chip tone={tone} glyph={glyph} word={word} announced />
      <p class="sentence">{sentence}</p>
      <span class="hidden" role="status">
        {pendingSentence(state)}
      </span>
      <p class="given">
        <strong>{countText(given)} tokens</strong> <span class="soft small">from you, in all visits</span>
      </p>
      <PauseButton state={state} actions={actions} />
    </section>
  );
}

function PauseButton({ state, actions }: StatusBarProps) {
  const { phase, pending } = state;
  if (pending === 'leave' || hasNothingToPause(state)) return null;
  const isPaused = phase.kind === 'paused';
  const waits = waitsForCondition(state);
  const mayAsk = pending === null && (isMember(state) || isPaused);
  return (
    <Press
      {...(isPaused && !waits ? { class: 'primary' } : {})}
      {...(waits ? { why: 'It goes on by itself when your own limit allows it.' } : {})}
      isOff={!mayAsk || waits}
      onPress={() => actions.ask(isPaused ? 'resume' : 'pause')}
    >
      {isPaused ? 'Resume' : 'Pause'}
    </Press>
  );
}

/** What the server says of the run, and when all is there that the first screen is made of. */
function useRun({ state, actions, invite }: Omit<PageProps, 'page'>) {
  const { phase, snapshot, machine } = state;
  // Reloaded after the end, it is told to come later: the next run is there when it is told.
  const awaitsNext = phase.kind === 'postponed' && phase.reason === 'runFinished';
  const { isAsked, ...told } = useStatus(
    invite,
    !mayDonate(state),
    `${REST.has(snapshot?.phase ?? '') ? 'rests' : 'runs'} ${snapshot?.next ?? ''}`,
    awaitsNext,
  );
  const { status } = told;
  const hasNext = awaitsNext && status !== null && status.phase !== 'finished';
  useEffect(() => {
    if (hasNext) actions.askAgain();
  }, [hasNext, actions]);
  const { about, isAsked: isAboutAsked } = useAbout(invite, status?.run ?? null);
  const isSettled = useSettled(isAsked && isAboutAsked && machine.gpu.kind !== 'unknown');
  return { ...told, about, isSettled };
}

export function DonorView({ state, actions, page, invite }: PageProps) {
  const isRunning = !mayDonate(state);
  const { status, refusal, isLost, about, isSettled } = useRun({ state, actions, invite });
  const isOver = status?.phase === 'finished';
  // After the end, what this browser keeps of its tab is enough.
  const proof = isOver ? keptProof(status.run) : null;
  const again = proof && (() => downloadAgain(proof));
  const onDownload = isMember(state) ? actions.download : again;
  const sample = useSample(invite, !isRunning || isOver, status?.run ?? '', status?.checkpointStep ?? 0);
  const isOld = isStale(state, isLost);
  useKeptFocus();
  return (
    <>
      <Banner page="Donate" invite={invite} />
      {isRunning && <StatusBar state={state} actions={actions} />}
      <main class={isSettled || isRunning ? 'narrow' : 'narrow unsettled'}>
        {isRunning ? (
          <Running {...{ state, actions, isOld }} told={status} />
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
        {!isRunning && !isOver && <GpuCard {...state} committedSteps={status?.committedSteps ?? 0} page={page} />}
        {(isRunning || !isOver) && <LimitsForm state={state} actions={actions} />}
        {(isRunning || refusal === null || status?.isBlocked) && (
          <RunCard
            {...{ status, about, invite, isRunning, onDownload }}
            isLost={isRunning ? isOld : isLost}
            snapshot={isRunning ? state.snapshot : null}
          />
        )}
        {!isOver && refusal === null && (
          <Share invite={invite} run={status?.run ?? 'a model'} wantsMore={wantsMore(state, status)} />
        )}
        {(isRunning || !isOver) && (
          <details class="card">
            <summary>{isRunning ? 'What runs here, and how to stop it' : 'What exactly will happen'}</summary>
            <Facts {...factsOf(state)} expected={status?.minuteTraffic ?? null} hasOwnEnds={about?.ends === 'own'} />
          </details>
        )}
        <CreditCard
          credit={state.credit}
          today={state.surroundings.day}
          forget={page.forgetCredit}
          askPlace={isMember(state) ? actions.place : null}
        />
        <MemberCard invite={invite} knownKey={knownKey} ownKey={donorKey} />
        <Help state={state} />
      </main>
    </>
  );
}

const factsOf = ({ minuteBytes, preferences, machine }: DonorState): Omit<FactsProps, 'expected' | 'hasOwnEnds'> => ({
  ...{ host: location.host, minuteBytes, relayOnly: preferences.relayOnly, localNetwork: machine.localNetwork },
});
