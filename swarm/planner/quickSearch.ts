/**
 * The quick search: how long is long enough where nobody says it. Its one idea: it is counted in simulated actions, so that
 * the plan is the same on every machine. It ends when nothing better has come for long, as a search among many does early:
 * what a better plan could come of has been guessed at before.
 */
import type { Candidate, Progress } from './search.ts';

/** About so many simulated actions, for more peers than these so much more. */
const MOST_WORK = 240_000;
const PEERS = 64;
/** For more peers it does not end before this part of it. */
const LEAST_PART = 1 / 4;
/** So many times the work that the best plan took, and none better since: then none is waited for. */
const FRUITLESS = 3;

/** Whether it goes on, to be asked after each step of the search. */
export function quickSearch(peers: number): (progress: Progress) => boolean {
  const most = MOST_WORK * Math.max(1, peers / PEERS);
  const least = Math.max(MOST_WORK, LEAST_PART * most);
  let found: Candidate | null = null;
  let foundAt = 0;
  return ({ best, work }) => {
    if (best !== found) foundAt = work;
    found = best;
    return work < Math.min(most, Math.max(least, FRUITLESS * foundAt));
  };
}
