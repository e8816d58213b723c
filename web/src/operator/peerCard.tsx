/** One donor: what it is, what it gives, why its part has its size, and how to let it go. */
import { bytesText, counted } from '../../../swarm/quantityText.ts';
import {
  adapterText,
  browserText,
  byteRateText,
  millisecondsText,
  NOTHING,
  percentText,
  precisionText,
  ROUTES,
} from '../page/format.ts';
import { Card, SmallButton } from '../page/parts.tsx';
import { Answer, Confirm, useAct } from './act.tsx';
import type { PeerRow } from './peerRows.ts';
import type { Link } from './swarmShape.ts';
import { millisText } from './timeline.tsx';

interface CardProps {
  readonly row: PeerRow;
  readonly links: readonly Link[];
  readonly close: () => void;
}

export function PeerCard({ row, links, close }: CardProps) {
  const { peer, adapter } = row;
  const act = useAct();
  const letGo = (how: string, done: string): void => void act.tell('/api/operator/let-go', { peer, how }, done);
  return (
    <Card id="donor" title={`Donor ${peer}`} beside={<SmallButton onClick={close}>Close</SmallButton>}>
      <dl class="facts">
        {factsOf(row, links).map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
        <div>
          <dt>Machine</dt>
          <dd class="words">
            {adapterText(adapter)}
            {adapter.software && ' (software)'}, {browserText(adapter.browser)}
            {row.facts && `; it computes ${precisionText(row.facts.compute)}`}
          </dd>
        </div>
      </dl>
      <div class="buttons">
        <SmallButton
          disabled={act.isOff}
          onClick={() => letGo('atBoundary', 'It leaves after this step and hands its part over.')}
        >
          Let go after this step
        </SmallButton>
        <Confirm
          label="Let go now"
          question="The step in progress is done again. If nobody else has a copy of its part, the run goes back to the newest checkpoint."
          disabled={act.isOff}
          onSure={() => letGo('atOnce', 'It was let go.')}
        />
        <Confirm
          label="Block its address"
          question="Everyone behind the same network address is let go now, and cannot come back."
          disabled={act.isOff}
          onSure={() => letGo('block', 'Its address is blocked.')}
        />
      </div>
      <Answer answer={act.answer} />
    </Card>
  );
}

function factsOf({ peer, facts, why, samples }: PeerRow, links: readonly Link[]): [string, string][] {
  const limits = facts?.limits;
  const profile = facts?.profile;
  const rate = (bytesPerSecond: number | null | undefined): string =>
    bytesPerSecond ? byteRateText(bytesPerSecond) : 'no limit';
  return [
    ['Its part', samples ? `${why}.` : why],
    [
      'Measured',
      profile?.layers
        .map(
          (layer) =>
            `${counted(layer.samples, 'sample')}: ${millisText(layer.forwardSeconds)} forward, ${millisText(layer.backwardSeconds)} backward a layer`,
        )
        .join('; ') || NOTHING,
    ],
    [
      'Gives',
      limits
        ? `${percentText(limits.speed)} of its GPU’s time, memory ${limits.memoryBytes === null ? 'as needed' : bytesText(limits.memoryBytes)}, upload ${rate(limits.uploadBytesPerSecond)}, download ${rate(limits.downloadBytesPerSecond)}`
        : NOTHING,
    ],
    [
      'Memory',
      facts?.peakBytes == null
        ? NOTHING
        : `${bytesText(facts.peakBytes)} used, ${bytesText(facts.predictedBytes ?? 0)} predicted, ${bytesText(profile?.memoryBytes ?? 0)} found`,
    ],
    [
      'Ways',
      links
        .filter(({ from }) => from === peer)
        .map(
          (link) =>
            `to ${link.peer} ${ROUTES[link.route].word}, ${millisecondsText(link.roundTripMs)}, ${byteRateText(link.bytesPerSecond)}${link.streams === undefined ? '' : ` over ${link.streams} connections`}`,
        )
        .join('; ') || 'it sends nothing',
    ],
  ];
}
