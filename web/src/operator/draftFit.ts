/** Whether the donors here can train a draft, by whom, and how long that would take: a sentence that follows the draft. */
import { useContext, useEffect, useState } from 'preact/hooks';
import { counted, durationText } from '../../../swarm/quantityText.ts';
import { type DryRun, dryRunSchema, type RunDraft } from '../../../swarm/run/runDraft.ts';
import { RoleContext } from './act.tsx';
import { tell } from './api.ts';
import { type DraftProblem, draftProblem } from './draftFields.ts';

/** So long after the last change the server is asked. */
const FIT_MS = 1_200;
/** More names than these say less than their number. */
const MOST_NAMED = 4;

/** `a`, `a and b`, `a, b, c, d and 3 others`. */
function named(names: readonly string[]): string {
  const rest = names.length - MOST_NAMED;
  const parts = rest > 0 ? [...names.slice(0, MOST_NAMED), counted(rest, 'other')] : [...names];
  const last = parts.pop() ?? '';
  return parts.length === 0 ? last : `${parts.join(', ')} and ${last}`;
}

/** Who would train it, who would not, and how long it takes. */
export function fitText({ peers, idle, totalSeconds }: Pick<DryRun, 'peers' | 'idle' | 'totalSeconds'>): string {
  const carriers = named(peers.map(({ peer }) => peer));
  const fits = `It fits: donor${peers.length === 1 ? '' : 's'} ${carriers} would train it, in about ${durationText(totalSeconds)}.`;
  const [first] = idle;
  if (first === undefined) return `${fits} Nobody is left out.`;
  if (idle.length === 1) return `${fits} Left out: ${first.peer} (${first.reason}).`;
  return `${fits} Left out: ${named(idle.map(({ peer }) => peer))}. “Check plan” says why.`;
}

/** Why the donors at hand cannot train it, in a server's words. */
export function noFitText(reason: string): string {
  const why = reason.replace(/^Refused: /, '').replace(/^the model does not fit these donors: /, '');
  return `The donors who are here now cannot train it: ${why} You can create it all the same; it waits for donors who can.`;
}

const NOBODY_TO_FIT = 'No donors yet. Once there is one, this line says whether the run fits and how long it takes.';

interface Fit {
  readonly state: 'nothing' | 'asked' | 'fits' | 'refused';
  readonly sentence: string;
  readonly problem: DraftProblem | null;
}
const NOTHING_SAID: Fit = { state: 'nothing', sentence: '', problem: null };

/** A viewer is told nothing. */
export function useFit(draft: RunDraft, isWhole: boolean, donors: number): Fit {
  const [fit, say] = useState(NOTHING_SAID);
  const isAsked = useContext(RoleContext) !== 'viewer' && isWhole;
  // Its name changes nothing.
  const asked = JSON.stringify({ ...draft, name: 'draft' });
  useEffect(() => {
    const isToAsk = isAsked && donors > 0;
    const tellOf = (state: Fit['state'], sentence: string): void => say({ state, sentence, problem: null });
    say(NOTHING_SAID);
    if (isToAsk) tellOf('asked', 'Checking whether the donors here can train it…');
    if (!isToAsk) return;
    let isOld = false;
    const timer = setTimeout(async () => {
      const question = { draft: JSON.parse(asked), cluster: null, whatIf: null };
      const answer = await tell('/api/operator/plan', question, dryRunSchema);
      if (isOld) return;
      if (answer.ok) return tellOf('fits', fitText(answer.value));
      const problem = draftProblem(answer.reason);
      if (problem) say({ state: 'refused', sentence: problem.sentence, problem });
      else tellOf('refused', noFitText(answer.reason));
    }, FIT_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [asked, isAsked, donors]);
  return { ...fit, sentence: isAsked && donors === 0 ? NOBODY_TO_FIT : fit.sentence };
}
