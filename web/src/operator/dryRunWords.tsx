/** What a plan is predicted to take, in words and a table of its peers. */
import { bytesText, counted, durationText } from '../../../swarm/quantityText.ts';
import type { DryRun, Prediction } from '../../../swarm/run/runDraft.ts';
import { countText, percentText, rateText, trafficText } from '../page/format.ts';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { millisText } from './timeline.tsx';

const sentenceOf = ({ stepSeconds, tokensPerSecond }: Prediction): string =>
  `a step takes ${millisText(stepSeconds)}, which is ${rateText(tokensPerSecond)} tokens a second`;

const detailOf = ({ stages, microBatches, schedule }: Prediction): string =>
  `${counted(stages, 'stage')}, ${counted(microBatches, 'micro-batch')}, ${schedule}.`;

export function DryRunWords({ plan, steps }: { plan: DryRun; steps: number | null }) {
  const { before, peers, idle, reasons, stepSeconds } = plan;
  const columns: readonly Column<DryRun['peers'][number]>[] = [
    heads('Donor', ({ peer }) => peer),
    { name: 'Layers', of: ({ layers }) => layers },
    numbers('Samples', ({ samples }) => samples),
    numbers('At work', ({ busySeconds }) => percentText(busySeconds / stepSeconds)),
    {
      ...numbers(
        'Memory',
        ({ memoryBytes, memoryLimitBytes }) => `${bytesText(memoryBytes)} of ${bytesText(memoryLimitBytes)}`,
      ),
      look: 'number wide',
    },
    numbers('Sends a step', ({ sentBytes }) => trafficText(sentBytes)),
  ];
  return (
    <div class="dry-run">
      <p>{carriedText(plan)}</p>
      <p>
        {capital(sentenceOf(plan))}.
        {steps !== null && ` ${countText(steps)} steps take about ${durationText(plan.totalSeconds)}.`}{' '}
        {countText(plan.parameters)} parameters.
      </p>
      {before && (
        <p class="soft">
          Without the change: {sentenceOf(before)}. {changeText(stepSeconds / before.stepSeconds - 1)}
        </p>
      )}
      <Stacks label="Donors of this plan" columns={columns} rows={peers} />
      {idle.map(({ peer, reason }) => (
        <p key={peer} class="small">
          {`${peer} is left out: ${reason}`}
        </p>
      ))}
      <details>
        <summary>Details</summary>
        <ul class="reasons small">
          {[detailOf(plan), ...reasons].map((words) => (
            <li key={words}>{words}</li>
          ))}
        </ul>
      </details>
    </div>
  );
}

const capital = (words: string): string => `${words.charAt(0).toUpperCase()}${words.slice(1)}`;

/** By whom, and how close it is. */
function carriedText({ peers }: DryRun): string {
  const names = peers.map(({ peer }) => peer).join(', ');
  const fullest = Math.max(...peers.map(({ memoryBytes, memoryLimitBytes }) => memoryBytes / memoryLimitBytes));
  return `Trained by ${counted(peers.length, 'donor')} (${names}). The fullest one uses ${percentText(fullest)} of its memory.`;
}

const changeText = (change: number): string =>
  Math.abs(change) < 0.005
    ? 'The change makes no difference.'
    : `The change makes a step ${percentText(Math.abs(change))} ${change < 0 ? 'shorter' : 'longer'}.`;
