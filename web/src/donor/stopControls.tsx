/** Everything that stops this tab, and what each way costs the others. The headline above says when it is true. */
import { Press } from '../page/parts.tsx';
import type { DonorActions } from './actions.ts';
import { isMember } from './phase.ts';
import { type DonorState, restReason } from './state.ts';

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
        <Press onPress={() => actions.leaveNow()}>Leave now</Press>
        <span class="soft small">without waiting; the swarm may have to repeat some steps</span>
      </div>
    );
  }
  const isPaused = phase.kind === 'paused';
  const hasNothingToPause = phase.kind === 'postponed' || (phase.kind === 'spare' && phase.finished);
  const mayAsk = pending === null && (isMember(state) || isPaused);
  // It goes on by itself: to resume now, the condition under Limits must go.
  const waitsForCondition = isPaused && state.rest === null && restReason(state) !== null;
  return (
    <>
      <div class="buttons">
        {!hasNothingToPause && (
          <Press
            {...(isPaused && !waitsForCondition ? { class: 'primary' } : {})}
            {...(waitsForCondition ? { why: 'It goes on by itself when your own limit allows it.' } : {})}
            isOff={!mayAsk || waitsForCondition}
            onPress={() => actions.ask(isPaused ? 'resume' : 'pause')}
          >
            {isPaused ? 'Resume' : 'Pause'}
          </Press>
        )}
        {!isPaused && !hasNothingToPause && (
          <>
            <Press onPress={() => actions.pauseNow()}>Pause now</Press>
            <Press isOff={!mayAsk} onPress={() => actions.snooze(SNOOZE_MS)}>
              Snooze 15 minutes
            </Press>
          </>
        )}
        <Press onPress={() => actions.ask('leave')}>Leave</Press>
      </div>
      <p class="soft small">
        {isPaused || hasNothingToPause
          ? `Nothing computes here.${waitsForCondition ? ' What it waits for is one of your own limits below.' : ''}`
          : 'Pause, Snooze and Leave finish the step and hand your part over first. Pause now stops at once; the others may have to repeat a step.'}
      </p>
    </>
  );
}
