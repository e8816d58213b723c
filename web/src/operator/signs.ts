/** States as glyph, word and tone: never a colour alone. */
import type { RehearsalRow } from '../../../swarm/messages/rehearsal.ts';
import type { Snapshot, SnapshotPhase } from '../../../swarm/messages/snapshot.ts';
import type { OperatorConnection } from './state.ts';

export interface Sign {
  readonly tone: string;
  readonly glyph: string;
  readonly word: string;
}

export const PHASES: Readonly<Record<SnapshotPhase, Sign>> = {
  waiting: { tone: 'wait', glyph: '◔', word: 'Waiting' },
  preparing: { tone: 'wait', glyph: '◔', word: 'Preparing' },
  training: { tone: 'good', glyph: '●', word: 'Training' },
  evaluating: { tone: 'good', glyph: '●', word: 'Evaluating' },
  saving: { tone: 'good', glyph: '●', word: 'Saving' },
  paused: { tone: 'calm', glyph: '◐', word: 'Paused' },
  finished: { tone: 'good', glyph: '✓', word: 'Finished' },
};

const STOPPED: Sign = { tone: 'calm', glyph: '■', word: 'Stopped' };

const DIVERGED: Sign = { tone: 'bad', glyph: '✕', word: 'Diverged' };

export const runSign = ({
  phase,
  isStopped,
  hasDiverged,
}: Pick<Snapshot, 'phase' | 'isStopped' | 'hasDiverged'>): Sign => {
  if (hasDiverged) return DIVERGED;
  return isStopped ? STOPPED : PHASES[phase];
};

export const CONNECTIONS: Readonly<Record<OperatorConnection, Sign>> = {
  connecting: { tone: 'wait', glyph: '◔', word: 'Connecting' },
  open: { tone: 'good', glyph: '●', word: 'Live' },
  closed: { tone: 'bad', glyph: '↻', word: 'Reconnecting' },
  loggedOut: { tone: 'calm', glyph: '○', word: 'Logged out' },
};

const RESTING: readonly SnapshotPhase[] = ['paused', 'finished'];

type Donor = Pick<Snapshot['donors'][number], 'state' | 'stages'>;

/** Without a plan everyone is about to join one; while the run rests that is called being ready. */
export function donorSign({ state, stages }: Donor, phase: SnapshotPhase): Sign {
  if (state === 'joining' && RESTING.includes(phase)) return { tone: 'calm', glyph: '○', word: 'Ready' };
  return state === 'computing' && stages.length === 0 ? KEEPS_COPIES : DONOR_STATES[state];
}

const KEEPS_COPIES: Sign = { tone: 'good', glyph: '▣', word: 'Keeps copies' };
const DONOR_STATES: Readonly<Record<Donor['state'], Sign>> = {
  joining: { tone: 'wait', glyph: '◔', word: 'Joining' },
  computing: { tone: 'good', glyph: '●', word: 'Computing' },
  spare: { tone: 'calm', glyph: '○', word: 'Spare' },
  paused: { tone: 'calm', glyph: '◐', word: 'Paused' },
};

export const REHEARSAL_STATES: Readonly<Record<RehearsalRow['state'], Sign>> = {
  begins: { tone: 'wait', glyph: '◔', word: 'Begins' },
  fired: { tone: 'wait', glyph: '◑', word: 'Under way' },
  over: { tone: 'good', glyph: '✓', word: 'Over' },
  failed: { tone: 'bad', glyph: '✕', word: 'Not done' },
};
