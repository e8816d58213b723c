/** Which of a site's runs this tab gives to: said only where there are several, and where it is needed most by itself. */
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { neededMost, type RunWant, runWantsSchema, USUAL_DONOR_BYTES } from '../../../swarm/messages/neededMost.ts';
import { ask, withInvite } from '../page/ask.ts';
import { countText } from '../page/format.ts';
import { askedRun, ofRun } from '../page/ofRun.ts';

/** Null: where it is needed most. */
const chosen = signal(askedRun);

interface RunChoiceProps {
  readonly invite: string | null;
  /** That the person gives at most; null: nobody said. */
  readonly memoryBytes: number | null;
}

export function RunChoice({ invite, memoryBytes }: RunChoiceProps) {
  const [runs, see] = useState<readonly RunWant[]>([]);
  useEffect(() => {
    void ask(withInvite('/api/runs', invite), runWantsSchema).then((answer) => answer.ok && see(answer.value.runs));
  }, [invite]);
  const named = runs.find(({ run }) => run === chosen.value)?.run ?? null;
  const needed = neededMost(runs, memoryBytes ?? USUAL_DONOR_BYTES);
  useEffect(() => {
    if (runs.length > 1) ofRun.value = named ?? needed;
  }, [runs, named, needed]);
  if (runs.length < 2) return null;
  return (
    <label class="run-choice">
      <span>Which run?</span>
      <select
        class="small"
        value={named ?? ''}
        onChange={({ currentTarget }) => {
          chosen.value = currentTarget.value || null;
        }}
      >
        <option value="">Where I am needed most{needed === null ? '' : ` (${needed} now)`}</option>
        {runs.map(({ run, phase, committedSteps, steps }) => (
          <option key={run} value={run}>
            {run}: {phase === 'finished' ? 'finished' : `${countText(committedSteps)} of ${countText(steps)} steps`}
          </option>
        ))}
      </select>
    </label>
  );
}
