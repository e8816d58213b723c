/** What a plan is predicted to take, in words and a table of its peers. */
import type { DryRun, Prediction } from '../../../swarm/runDraft.ts';
import { bytesText, countText, durationText, percentText, rateText, shortId, trafficText } from '../page/format.ts';
import { Scroll } from '../page/scroll.tsx';
import { plainReason } from './plainReason.ts';
import { millisText } from './timeline.tsx';

/** Ids of donors are long, names of a cluster file are what the operator wrote. */
const nameOf = (peer: string): string => (peer.length > 16 ? shortId(peer) : peer);

const sentenceOf = ({ stepSeconds, tokensPerSecond, stages, microBatches, schedule }: Prediction): string =>
  `${millisText(stepSeconds)} a step, ${rateText(tokensPerSecond)} tokens a second: ${stages} ${stages === 1 ? 'stage' : 'stages'}, ${microBatches} ${microBatches === 1 ? 'micro-batch' : 'micro-batches'}, ${schedule}`;

export function DryRunWords({ plan, steps }: { plan: DryRun; steps: number | null }) {
  const { before, peers, idle, reasons, stepSeconds } = plan;
  return (
    <div class="dry-run">
      <p>
        {sentenceOf(plan)}.
        {steps !== null && ` ${countText(steps)} steps take about ${durationText(plan.totalSeconds)}.`}{' '}
        {countText(plan.parameters)} parameters.
      </p>
      {before && (
        <p class="soft">
          Without the change: {sentenceOf(before)}. {changeText(stepSeconds / before.stepSeconds - 1)}
        </p>
      )}
      <Scroll label="Donors of this plan">
        <table>
          <thead>
            <tr>
              <th scope="col">Donor</th>
              <th scope="col">Layers</th>
              <th scope="col" class="number">
                Samples
              </th>
              <th scope="col" class="number">
                At work
              </th>
              <th scope="col" class="number">
                Memory
              </th>
              <th scope="col" class="number">
                Sends a step
              </th>
            </tr>
          </thead>
          <tbody>
            {peers.map(({ peer, layers, samples, busySeconds, memoryBytes, memoryLimitBytes, sentBytes }) => (
              <tr key={peer}>
                <th scope="row" title={peer}>
                  {nameOf(peer)}
                </th>
                <td>{layers}</td>
                <td class="number">{samples}</td>
                <td class="number">{percentText(busySeconds / stepSeconds)}</td>
                <td class="number">
                  {bytesText(memoryBytes)} of {bytesText(memoryLimitBytes)}
                </td>
                <td class="number">{trafficText(sentBytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {idle.map(({ peer, reason }) => (
        <p key={peer} class="small">
          {nameOf(peer)} is left idle: {plainReason(reason)}
        </p>
      ))}
      {reasons.length > 0 && (
        <details>
          <summary>Why</summary>
          <ul class="reasons small">
            {reasons.map((words) => (
              <li key={words}>{plainReason(words)}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

const changeText = (change: number): string =>
  Math.abs(change) < 0.005
    ? 'The change makes no difference.'
    : `The change makes a step ${percentText(Math.abs(change))} ${change < 0 ? 'shorter' : 'longer'}.`;
