/** Every way to stop beside Pause, which is in the status bar; and what each one costs the others. */
import { wallMs } from '../page/clock.ts';
import { Press } from '../page/parts.tsx';
import type { DonorActions } from './actions.ts';
import { isMember } from './phase.ts';
import { leaveNowSentence, stopSentence } from './sentences.ts';
import { type DonorState, hasNothingToPause } from './state.ts';

const MINUTE_MS = 60_000;
/** When tomorrow begins for who snoozes until then. */
const MORNING_HOUR = 7;

/** Milliseconds from now until then, by this computer's clock. */
function untilTomorrowMs(nowMs: number): number {
  const now = new Date(nowMs);
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, MORNING_HOUR).getTime() - nowMs;
}

const SNOOZES: readonly (readonly [string, () => number])[] = [
  ['15 minutes', () => 15 * MINUTE_MS],
  ['1 hour', () => 60 * MINUTE_MS],
  ['until tomorrow', () => untilTomorrowMs(wallMs())],
];

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
        <span class="soft small">{leaveNowSentence(state)}</span>
      </div>
    );
  }
  const isPaused = phase.kind === 'paused';
  const rests = isPaused || hasNothingToPause(state);
  const maySnooze = pending === null && isMember(state);
  return (
    <>
      <div class="buttons">
        {!rests && (
          <>
            <fieldset class="buttons snooze">
              <legend class="hidden">Snooze</legend>
              <span aria-hidden="true">Snooze</span>
              {SNOOZES.map(([name, ms]) => (
                <Press key={name} isOff={!maySnooze} onPress={() => actions.snooze(ms())}>
                  <span class="hidden">Snooze </span>
                  {name}
                </Press>
              ))}
            </fieldset>
            <Press onPress={() => actions.pauseNow()}>Pause now</Press>
          </>
        )}
        <Press onPress={() => actions.ask('leave')}>Leave</Press>
      </div>
      <p class={`soft small${rests ? '' : ' stop-words'}`}>{stopSentence(state, rests)}</p>
    </>
  );
}
