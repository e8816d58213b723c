/** Lets donors go of whom nothing comes any more. See SPEC.md, RE40. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** A thousand who are lost with one line are let go for so long at a time: then a lease is renewed, and others are read. */
const TURN_MS = 20;

interface Silent {
  expire(nowMs: number, passedMs: number): void;
}

/** Looks at these donors, whoever they are then, until what is returned is called. */
export function watchSilence(donors: ReadonlySet<Silent>): () => void {
  let lookedMs = monotonicMs();
  let isLooking = false;
  const look = async (): Promise<void> => {
    const nowMs = monotonicMs();
    // While this process stood still it read nothing: that is nobody's silence.
    const passedMs = Math.min(nowMs - lookedMs, 2 * SILENCE.lookMs);
    lookedMs = nowMs;
    isLooking = true;
    let turnMs = nowMs;
    for (const donor of [...donors]) {
      donor.expire(nowMs, passedMs);
      if (monotonicMs() - turnMs < TURN_MS) continue;
      await nextTurn();
      turnMs = monotonicMs();
    }
    isLooking = false;
  };
  const timer = setInterval(() => {
    if (!isLooking) void look();
  }, SILENCE.lookMs);
  return () => clearInterval(timer);
}
