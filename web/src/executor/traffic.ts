/**
 * A donor's caps on what it sends and receives, kept by the senders: a data channel cannot refuse input, so a receiver's
 * cap is divided among the peers that send to it under the plan, and each of them keeps to its part. Bytes take places
 * one after the other, first come, first sent; what a moment did not use is lost but for a tenth of a second.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { Limits } from '../../../swarm/limits.ts';
import type { Partners } from '../../../swarm/ways/partners.ts';
import { type Clock, Spacing } from './spacing.ts';

const SLACK_SECONDS = 0.1;

type TrafficLimits = Pick<Limits, 'uploadBytesPerSecond' | 'downloadBytesPerSecond'>;

export class Traffic {
  readonly #clock: Clock;
  readonly #sending: Spacing;
  readonly #fetching: Spacing;
  /** The part of its receiver's cap that is this peer's: bytes a second. */
  #parts = new Map<PeerId, { readonly bytesPerSecond: number; readonly spacing: Spacing }>();
  #own: TrafficLimits = { uploadBytesPerSecond: null, downloadBytesPerSecond: null };

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sending = new Spacing(clock, SLACK_SECONDS);
    this.#fetching = new Spacing(clock, SLACK_SECONDS);
  }

  limit(own: TrafficLimits): void {
    this.#own = own;
  }

  /** What each peer takes from this one. Those not in it take what comes. */
  share(parts: ReadonlyMap<PeerId, number>): void {
    this.#parts = new Map(
      [...parts].map(([peer, bytesPerSecond]) => {
        const spacing = this.#parts.get(peer)?.spacing ?? new Spacing(this.#clock, SLACK_SECONDS);
        return [peer, { bytesPerSecond, spacing }];
      }),
    );
  }

  /** Resolves when so many bytes may go to a peer (null: to the server). */
  async maySend(to: PeerId | null, bytes: number): Promise<void> {
    const part = to === null ? undefined : this.#parts.get(to);
    const waits = [0];
    if (part) waits.push(part.spacing.take(bytes / part.bytesPerSecond));
    const { uploadBytesPerSecond: rate } = this.#own;
    if (rate !== null) waits.push(this.#sending.take(bytes / rate));
    await this.#wait(Math.max(...waits));
  }

  /** So many bytes came from the server: resolves when the next ones may be asked for. */
  async fetched(bytes: number): Promise<void> {
    const { downloadBytesPerSecond: rate } = this.#own;
    if (rate !== null) await this.#wait(this.#fetching.take(bytes / rate));
  }

  async #wait(seconds: number): Promise<void> {
    if (seconds > 0) await this.#clock.wait(seconds);
  }
}

/** What this peer may send to each one that has a cap: an equal part for every peer that it exchanges tensors with. */
export const downloadParts = (partners: Partners, me: PeerId, caps: ReadonlyMap<PeerId, number>): Map<PeerId, number> =>
  new Map(
    [...(partners.get(me) ?? [])].flatMap((peer) => {
      const bytesPerSecond = caps.get(peer);
      return bytesPerSecond === undefined ? [] : [[peer, bytesPerSecond / (partners.get(peer)?.size ?? 1)] as const];
    }),
  );
