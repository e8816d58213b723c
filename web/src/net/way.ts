/**
 * This end's way to one other donor: the newest attempt at a direct link, how frames go meanwhile, when it is tried anew.
 *
 * An attempt is named by the epoch in which it was begun and its number there, and the newest one wins at both
 * ends. Whoever begins one tells the other: the initiator (the smaller id) by its offer, the other by a call for an
 * offer. So two ends that disagree about whether their link lives agree again at the next attempt, and a signal of an
 * older one is known for what it is.
 */
import { doubledMs, type PeerId } from '../../../swarm/base.ts';
import type { LinkMeasurement, LinkReport, RelayReason, Route } from '../../../swarm/messages/profile.ts';
import { CALL, RELAYED } from '../../../swarm/messages/signal.ts';
import type { Link } from './link.ts';

/** A direct link has so long to open before frames go through the server. */
export const CONNECT_LIMIT_MS = 15_000;
/** An attempt that has not opened by then is closed; the next one begins after a pause. */
export const ATTEMPT_LIMIT_MS = 30_000;
/** The pause while someone waits for the link, and the first one behind what is relayed; that one doubles. */
export const SOON_MS = 1_000;
export const RETRY_FIRST_MS = 30_000;
const RETRY_MOST_MS = 600_000;

export interface Way {
  readonly peer: PeerId;
  readonly link: Link;
  readonly epoch: number;
  readonly attempt: number;
  /** Null: not decided yet, or lost. */
  route: Route | null;
  /** What kept the direct way from opening. */
  why: RelayReason | null;
  /** Until then `connect` waits for the direct way. */
  deadlineMs: number;
  readonly attemptEndMs: number;
  /** When the direct way is tried again; null: not, while the link is not closed. */
  retryAtMs: number | null;
  failures: number;
  /** The plan has nothing to do with it. */
  isProbe: boolean;
}

/** A signal of the other end, as the server delivered it. */
interface Signal {
  readonly epoch: number;
  readonly attempt: number;
  readonly data: string;
}

/**
 * offer: the first signal of an attempt that is new here. more: a signal of the attempt in progress. call: an offer is
 * asked for, and known: it was made already. relayed: the other end does not wait for the direct way any more.
 */
type Meaning = 'offer' | 'more' | 'call' | 'known' | 'relayed' | 'stale' | 'bad';

/** What a signal means to the end that receives it in this epoch, as the initiator or as the other one. */
export function meaningOf(signal: Signal, way: Way | undefined, initiates: boolean, epoch: number): Meaning {
  const order = way ? signal.epoch - way.epoch || signal.attempt - way.attempt : 1;
  if (way ? order < 0 : signal.epoch < epoch) return 'stale';
  if (signal.data === RELAYED) return 'relayed';
  const isNew = order > 0;
  if (signal.data === CALL) {
    if (!initiates) return 'bad';
    return isNew ? 'call' : 'known';
  }
  // Only the initiator begins with a signal of the link; what is left of an ended attempt begins nothing.
  if (isNew) return initiates ? 'stale' : 'offer';
  return way?.link.state === 'closed' ? 'stale' : 'more';
}

/** The name of the attempt that this end begins after `way`, in an epoch not before this one. */
export function nextAttempt(way: Way | undefined, leastEpoch: number): { epoch: number; attempt: number } {
  const epoch = Math.max(leastEpoch, way?.epoch ?? 0);
  return { epoch, attempt: way?.epoch === epoch ? way.attempt + 1 : 0 };
}

/** A new attempt in the place of one before: what is relayed stays so until it opens. */
export function begun(
  link: Link,
  name: Pick<Way, 'peer' | 'epoch' | 'attempt'>,
  before: Way | undefined,
  nowMs: number,
): Omit<Way, 'isProbe' | 'deadlineMs'> {
  return {
    ...name,
    link,
    route: before?.route === 'relayed' ? 'relayed' : null,
    why: before?.why ?? null,
    attemptEndMs: nowMs + ATTEMPT_LIMIT_MS,
    retryAtMs: null,
    failures: before?.failures ?? 0,
  };
}

export const isDue = ({ link, retryAtMs }: Way, nowMs: number): boolean =>
  link.state === 'closed' && retryAtMs !== null && nowMs >= retryAtMs;

/** Soon where someone waits for it, else after a pause that doubles. */
export function retryLater(way: Way, isAwaited: boolean, nowMs: number): void {
  if (isAwaited && way.route !== 'relayed') {
    way.retryAtMs = nowMs + SOON_MS;
    return;
  }
  way.retryAtMs = nowMs + doubledMs(RETRY_FIRST_MS, RETRY_MOST_MS, way.failures);
  way.failures += 1;
}

/** What is known of it; undefined: no frame goes by it yet. `relayed`: of the way through the server. */
export function reportOf(
  { peer, link, route, why }: Pick<Way, 'peer' | 'route' | 'why'> & Partial<Pick<Way, 'link'>>,
  relayed: LinkMeasurement,
): LinkReport | undefined {
  if (route === null) return undefined;
  if (route === 'relayed' || !link) return { peer, route, ...relayed, ...(why !== null && { why }) };
  const { roundTripMs, bytesPerSecond, windowBytes, streams } = link;
  const limited = windowBytes === null ? {} : { windowBytes };
  return { peer, route, roundTripMs, bytesPerSecond, ...limited, ...(streams > 1 && { streams }) };
}
