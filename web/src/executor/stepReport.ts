/** What a peer tells the server of a step, once the sums of what it keeps stand. */
import { MOST_SPANS, type ReportMessage } from '../../../swarm/messages/messages.ts';
import type { Route } from '../../../swarm/messages/profile.ts';
import { type MeasuredSpan, reported } from '../../../swarm/timeline/measured.ts';
import { type BesideLog, besideReported } from './besideLog.ts';
import type { ShardNorm } from './engine.ts';
import type { Role } from './role.ts';
import { said } from './slices.ts';
import type { Surroundings } from './surroundings.ts';

type Shards = ReportMessage['shards'];

interface Done extends Pick<ReportMessage, 'losses' | 'sent'> {
  readonly step: number;
  /** Of what this peer keeps, in its order. */
  readonly norms: readonly ShardNorm[];
  readonly digests: readonly (Shards[number]['digests'] | undefined)[];
  readonly timeline: readonly MeasuredSpan[];
  readonly beside: BesideLog;
  readonly bytesSent: Readonly<Record<Route, number>>;
}

export function stepReport(
  { kept, epoch }: Role,
  around: Surroundings,
  { step, losses, norms, digests, sent = [], timeline, beside, bytesSent }: Done,
): ReportMessage {
  const spans = timeline.slice(0, MOST_SPANS).map(reported);
  const { links, uploadBytesPerSecond, turnErrors = [] } = around;
  const behind = around.behind?.() ?? null;
  return {
    type: 'report',
    epoch,
    step,
    losses,
    shards: kept.map(({ block, range }, place) => ({
      block,
      range,
      sumSquares: said(norms[place]?.sumSquares ?? Number.NaN),
      digests: digests[place] ?? null,
    })),
    ...(sent.length > 0 ? { sent } : {}),
    bytesDirect: bytesSent.direct,
    bytesRelayed: bytesSent.relayed,
    spans: [...spans, ...beside.take(MOST_SPANS - spans.length).map(besideReported)],
    ...(behind && { behind }),
    links: [...links],
    ...(uploadBytesPerSecond !== undefined && { uploadBytesPerSecond }),
    ...(turnErrors.length > 0 && { turnErrors: [...turnErrors] }),
  };
}
