/** The one status of a tab that takes part, always in view: its state, one sentence, Pause, and all that was given. */
import { countText } from '../page/format.ts';
import { Chip, Press } from '../page/parts.tsx';
import type { DonorActions } from './actions.ts';
import { isMember } from './phase.ts';
import { headlineOf, PENDING, waitsForCondition } from './sentences.ts';
import { allGivenTokens, type DonorState, hasNothingToPause } from './state.ts';

interface StatusBarProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

export function StatusBar({ state, actions }: StatusBarProps) {
  const { tone, glyph, word, sentence } = headlineOf(state);
  const given = allGivenTokens(state);
  return (
    <section class={`status-bar ${tone}`} aria-label="Status">
      <Chip tone={tone} glyph={glyph} word={word} announced />
      <p class="sentence">{sentence}</p>
      <span class="hidden" role="status">
        {state.pending && PENDING[state.pending]}
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
