/** What a person can do on the donor's page: the shell does it, the views offer it. */
import type { Limits } from '../../../swarm/limits.ts';
import type { Preferences } from './preferences.ts';

export interface DonorActions {
  donate(): void;
  ask(what: 'pause' | 'resume' | 'leave'): void;
  pauseNow(): void;
  snooze(milliseconds: number): void;
  leaveNow(): void;
  /** Of one who was told to come later: now. */
  askAgain(): void;
  limit(limits: Limits): void;
  prefer(preferences: Preferences): void;
  download(): Promise<string>;
  place(): Promise<string>;
}

/** Outside of donating. */
export interface PageActions {
  forgetCredit(): void;
  trySpeed(): void;
  stopTrial(): void;
}
