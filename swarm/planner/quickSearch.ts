/**
 * The quick search: how long is long enough where nobody says it. Its one idea: it is counted in simulated actions, so that
 * the plan is the same on every machine. It ends when nothing better has come for long, as a search among many does early:
 * what a better plan could come of has been guessed at before.
 */
import type { Candidate, Progress } from './search.ts';

/** About so many simulated actions for so few peers. */
const [FEW, FEW_WORK] = [16, 240_000];
/** For more, and for more than these so much more: a second or two for 64, some for 1,000. */
const [MANY, MANY_WORK, GROWTH] = [64, 50_000, 1.3];
/** For more peers it does not end before this part of it. */
const LEAST_PART = 1 / 2;
/** So many times the work that the best plan took, and none better since: then none is waited for. */
const FRUITLESS = 3;

/** Whether it goes on, to be asked after each step of the search. */
export function quickSearch(peers: number): (progress: Progress) => boolean {
  const most = peers <= FEW ? FEW_WORK : MANY_WORK * Math.max(1, peers / MANY) ** GROWTH;
  const least = Math.max(peers <= FEW ? FEW_WORK : MANY_WORK, LEAST_PART * most);
  let found: Candidate | null = null;
  let foundAt = 0;
  return ({ best, work }) => {
    if (best !== found) foundAt = work;
    found = best;
    return work < Math.min(most, Math.max(least, FRUITLESS * foundAt));
  };
}
