/** Everything that stops this tab, and what each way costs the others. The headline above says when it is true. */

import { type DonorState, isMember, restReason } from './state.ts';
import type { DonorActions } from './view.tsx';

const SNOOZE_MS = 15 * 60_000;

interface StopProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

export function StopControls({ state, actions }: StopProps) {
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
  const isFinished = phase.kind === 'spare' && phase.finished;
  const mayAsk = !isFinished && pending === null && (isMember(state) || isPaused);
  // It goes on by itself: to resume now, the condition under Limits must go.
  const waitsForCondition = isPaused && state.rest === null && restReason(state) !== null;
  return (
    <>
      <div class="buttons">
        <button
          type="button"
          disabled={!mayAsk || waitsForCondition}
          onClick={() => actions.ask(isPaused ? 'resume' : 'pause')}
        >
          {isPaused ? 'Resume' : 'Pause'}
        </button>
        {!isPaused && !isFinished && (
          <>
            <button type="button" onClick={() => actions.pauseNow()}>
              Pause now
            </button>
            <button type="button" disabled={!mayAsk} onClick={() => actions.snooze(SNOOZE_MS)}>
              Snooze 15 minutes
            </button>
          </>
        )}
        <button type="button" onClick={() => actions.ask('leave')}>
          Leave
        </button>
      </div>
      <p class="soft small">
        {isPaused || isFinished
          ? `Nothing computes here.${waitsForCondition ? ' What it waits for is one of your own limits below.' : ''}`
          : 'Pause, Snooze and Leave finish the step and hand your part over first. Pause now stops at once; the others may have to repeat a step.'}
      </p>
    </>
  );
}
