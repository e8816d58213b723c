/** States as glyph, word and tone: never a colour alone. */
import type { RehearsalRow } from '../../../swarm/messages/rehearsal.ts';
import { type Snapshot, type SnapshotPhase, STATE_WORDS } from '../../../swarm/messages/snapshot.ts';
import type { OperatorConnection } from './state.ts';

export interface Sign {
  readonly tone: string;
  readonly glyph: string;
  readonly word: string;
}

const wordOf = (phase: SnapshotPhase): string => STATE_WORDS[phase].replace(/^./, (first) => first.toUpperCase());

export const PHASES: Readonly<Record<SnapshotPhase, Sign>> = {
  waiting: { tone: 'calm', glyph: '○', word: wordOf('waiting') },
  preparing: { tone: 'wait', glyph: '◔', word: wordOf('preparing') },
  training: { tone: 'good', glyph: '●', word: wordOf('training') },
  evaluating: { tone: 'good', glyph: '●', word: wordOf('evaluating') },
  saving: { tone: 'good', glyph: '●', word: wordOf('saving') },
  paused: { tone: 'calm', glyph: '◐', word: wordOf('paused') },
  finished: { tone: 'good', glyph: '✓', word: wordOf('finished') },
};

/** It is paused, and not by a person: its numbers went wrong. */
const DIVERGED: Sign = { tone: 'bad', glyph: '✕', word: 'Paused' };

export const runSign = ({ phase, hasDiverged }: Pick<Snapshot, 'phase' | 'hasDiverged'>): Sign =>
  hasDiverged ? DIVERGED : PHASES[phase];

export const CONNECTIONS: Readonly<Record<OperatorConnection, Sign>> = {
  connecting: { tone: 'wait', glyph: '◔', word: 'Connecting' },
  open: { tone: 'good', glyph: '●', word: 'Live' },
  closed: { tone: 'wait', glyph: '↻', word: 'Reconnecting' },
  noLeader: { tone: 'wait', glyph: '↻', word: 'Reconnecting' },
  noRun: { tone: 'bad', glyph: '✕', word: 'Not active' },
  loggedOut: { tone: 'calm', glyph: '○', word: 'Logged out' },
};

const RESTING: readonly SnapshotPhase[] = ['paused', 'finished'];

type Donor = Pick<Snapshot['donors'][number], 'state'>;

/** Without a plan everyone is about to join one; while the run rests nobody does. */
export function donorSign({ state }: Donor, phase: SnapshotPhase): Sign {
  return state === 'joining' && RESTING.includes(phase) ? DONOR_STATES.spare : DONOR_STATES[state];
}

const DONOR_STATES: Readonly<Record<Donor['state'], Sign>> = {
  joining: { tone: 'wait', glyph: '◔', word: 'Starting' },
  computing: { tone: 'good', glyph: '●', word: 'Training' },
  spare: { tone: 'calm', glyph: '○', word: 'Standby' },
  paused: { tone: 'calm', glyph: '◐', word: 'Paused' },
};

export const REHEARSAL_STATES: Readonly<Record<RehearsalRow['state'], Sign>> = {
  begins: { tone: 'wait', glyph: '◔', word: 'Begins' },
  fired: { tone: 'wait', glyph: '◑', word: 'Under way' },
  over: { tone: 'good', glyph: '✓', word: 'Over' },
  failed: { tone: 'bad', glyph: '✕', word: 'Not done' },
};
