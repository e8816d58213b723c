/** What this donor's line carries, as far as that is known, and what of it the run uses now. */
import { byteRateText, percentText } from '../page/format.ts';
import type { DonorState } from './state.ts';

interface Direction {
  readonly name: 'Up' | 'Down';
  /** Bytes a second, all of them. */
  readonly used: number;
  /** As it was measured, or the most that was seen; null: neither. */
  readonly carries: number | null;
  /** What the person allows; null: no less than the line has. */
  readonly allowed: number | null;
}

type LineState = Pick<DonorState, 'status' | 'links' | 'uploadBytesPerSecond' | 'limits'>;

export function lineOf({ status, links, uploadBytesPerSecond, limits }: LineState): readonly Direction[] {
  if (status === null) return [];
  const { sent, received, mostReceived } = status.rates;
  // From one other donor at a time, or from all in the best second.
  const down = Math.max(mostReceived, ...links.map(({ receivedBytesPerSecond = 0 }) => receivedBytesPerSecond));
  return [
    { name: 'Up', used: sent, carries: uploadBytesPerSecond, allowed: limits.uploadBytesPerSecond },
    { name: 'Down', used: received, carries: down || null, allowed: limits.downloadBytesPerSecond },
  ];
}

/** `0.4 MB/s now, 18 % of the 2.3 MB/s it was seen to carry. You allow 0.5 MB/s.` */
export function directionText({ used, carries }: Direction): string {
  // Less than a byte a second is the rest of a mean.
  if (used < 1) return `Nothing now. ${carries === null ? UNKNOWN : `It was seen to carry ${byteRateText(carries)}.`}`;
  const now = `${byteRateText(used)} now`;
  if (carries === null) return `${now}. ${UNKNOWN}`;
  const share = percentText(Math.min(1, used / carries));
  return `${now}, ${share} of the ${byteRateText(carries)} it was seen to carry.`;
}

const UNKNOWN = 'What it can carry is not known yet.';

export function Line({ state }: { readonly state: DonorState }) {
  const directions = lineOf(state);
  if (directions.length === 0) return null;
  return (
    <dl class="line">
      {directions.map((direction) => {
        const { name, used, carries, allowed } = direction;
        return (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <meter min={0} max={carries ?? 1} value={carries === null ? 0 : used} aria-label={`${name}, in use`} />
              <span class="small">{directionText(direction)}</span>
              {allowed !== null && <span class="soft small">You allow {byteRateText(allowed)}.</span>}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
