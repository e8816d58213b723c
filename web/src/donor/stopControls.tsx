/** Every way to stop beside Pause, which is in the status bar; and what each one costs the others. */
import { wallMs } from '../page/clock.ts';
import { Press } from '../page/parts.tsx';
import type { DonorActions } from './actions.ts';
import { isMember } from './phase.ts';
import { type DonorState, hasNothingToPause, isAlone, isHeld } from './state.ts';
import { waitsForCondition } from './statusBar.tsx';

const MINUTE_MS = 60_000;
/** When tomorrow begins for who snoozes until then. */
const MORNING_HOUR = 7;

/** Milliseconds from now until then, by this computer's clock. */
export function untilTomorrowMs(nowMs: number): number {
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
        <span class="soft small">Don’t wait. The others may have to repeat a step.</span>
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
      <p class={`soft small${rests ? '' : ' stop-words'}`}>{words(state, rests)}</p>
    </>
  );
}

function words(state: DonorState, rests: boolean): string {
  if (state.phase.kind === 'computing' && isAlone(state))
    return 'You train alone right now, so the newest steps are on your GPU only. Pause, Snooze and Leave save them first. “Pause now” and closing this tab lose what came after the last saved state.';
  if (state.phase.kind === 'spare' && !rests)
    return 'Nothing runs here while you’re on standby. Pause or snooze if you don’t want to be brought in.';
  if (!rests && state.phase.kind === 'reconnecting')
    return `Nothing runs here ${state.phase.reason === 'server' ? 'until the server answers' : 'for a moment'}. Then it goes on by itself, unless you leave or press “Pause now”.`;
  if (!rests)
    return 'Pause, Snooze and Leave finish the step first. “Pause now” stops this very moment, and the others may have to repeat a step.';
  if (isHeld(state)) return 'Nothing runs here. Your GPU goes on by itself when the operator lets the run go on.';
  return waitsForCondition(state)
    ? 'Nothing runs here. It waits for one of your own limits below.'
    : 'Nothing runs here.';
}
