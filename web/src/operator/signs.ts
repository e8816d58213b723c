/** States as glyph, word and tone: never a colour alone. */
import type { RehearsalRow } from '../../../swarm/messages/rehearsal.ts';
import { type Snapshot, type SnapshotPhase, STATE_WORDS } from '../../../swarm/messages/snapshot.ts';
import type { OperatorConnection } from './state.ts';

export interface Sign {
  readonly tone: string;
  readonly glyph: string;
  readonly word: string;
}

export const signWith = <Tone extends string>(tone: Tone, glyph: string, word: string) => ({ tone, glyph, word });

const wordOf = (phase: SnapshotPhase): string => STATE_WORDS[phase].replace(/^./, (first) => first.toUpperCase());

export const PHASES: Readonly<Record<SnapshotPhase, Sign>> = {
  waiting: signWith('calm', '○', wordOf('waiting')),
  preparing: signWith('wait', '◔', wordOf('preparing')),
  training: signWith('good', '●', wordOf('training')),
  evaluating: signWith('good', '●', wordOf('evaluating')),
  saving: signWith('good', '●', wordOf('saving')),
  paused: signWith('calm', '◐', wordOf('paused')),
  finished: signWith('good', '✓', wordOf('finished')),
};

/** It is paused, and not by a person: its numbers went wrong. */
const DIVERGED: Sign = signWith('bad', '✕', 'Paused');

export const runSign = ({ phase, hasDiverged }: Pick<Snapshot, 'phase' | 'hasDiverged'>): Sign =>
  hasDiverged ? DIVERGED : PHASES[phase];

export const CONNECTIONS: Readonly<Record<OperatorConnection, Sign>> = {
  connecting: signWith('wait', '◔', 'Connecting'),
  open: signWith('good', '●', 'Live'),
  closed: signWith('wait', '↻', 'Reconnecting'),
  noLeader: signWith('wait', '↻', 'Reconnecting'),
  noRun: signWith('bad', '✕', 'Not active'),
  loggedOut: signWith('calm', '○', 'Logged out'),
};

const RESTING: readonly SnapshotPhase[] = ['paused', 'finished'];

type Donor = Pick<Snapshot['donors'][number], 'state'>;

/** Without a plan everyone is about to join one; while the run rests nobody does. */
export function donorSign({ state }: Donor, phase: SnapshotPhase): Sign {
  return state === 'joining' && RESTING.includes(phase) ? DONOR_STATES.spare : DONOR_STATES[state];
}

const DONOR_STATES: Readonly<Record<Donor['state'], Sign>> = {
  joining: signWith('wait', '◔', 'Starting'),
  computing: signWith('good', '●', 'Training'),
  spare: signWith('calm', '○', 'Standby'),
  paused: signWith('calm', '◐', 'Paused'),
};

export const REHEARSAL_STATES: Readonly<Record<RehearsalRow['state'], Sign>> = {
  begins: signWith('wait', '◔', 'Begins'),
  fired: signWith('wait', '◑', 'Under way'),
  over: signWith('good', '✓', 'Over'),
  failed: signWith('bad', '✕', 'Not done'),
};
