/** The loss over the steps as a small line, with its numbers in words for who does not see it. */
import type { WatchedStep } from '../../../swarm/watch.ts';
import { lossText } from '../page/format.ts';

const WIDTH = 600;
const HEIGHT = 140;
/** More points than this are averaged in groups: a pixel shows no more. */
const POINTS = 300;

interface Point {
  readonly step: number;
  readonly loss: number;
}

/** At most `count` points, each the mean of as many neighbours. */
export function thinned(curve: readonly WatchedStep[], count: number): Point[] {
  const group = Math.max(1, Math.ceil(curve.length / count));
  const points: Point[] = [];
  for (let from = 0; from < curve.length; from += group) {
    const part = curve.slice(from, from + group);
    const last = part.at(-1);
    if (last) points.push({ step: last.step, loss: part.reduce((sum, { loss }) => sum + loss, 0) / part.length });
  }
  return points;
}

export function Curve({ curve }: { curve: readonly WatchedStep[] }) {
  const points = thinned(curve, POINTS);
  const [first] = points;
  const last = points.at(-1);
  const losses = points.map(({ loss }) => loss);
  const low = Math.min(...losses);
  const high = Math.max(...losses);
  const summary =
    first && last
      ? `Loss over the steps: ${lossText(first.loss)} at step ${first.step + 1}, ${lossText(last.loss)} at step ${last.step + 1}, lowest ${lossText(low)}.`
      : 'No step is done yet.';
  const x = ({ step }: Point): number =>
    first && last ? ((step - first.step) / Math.max(1, last.step - first.step)) * WIDTH : 0;
  const y = ({ loss }: Point): number => HEIGHT - ((loss - low) / Math.max(1e-9, high - low)) * HEIGHT;
  return (
    <figure class="curve">
      <div class="curve-plot">
        <svg viewBox={`0 -6 ${WIDTH} ${HEIGHT + 12}`} preserveAspectRatio="none" role="img" aria-label={summary}>
          <path class="rule" d={`M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}`} />
          <polyline
            class="line"
            points={points.map((point) => `${x(point).toFixed(1)},${y(point).toFixed(1)}`).join(' ')}
          />
        </svg>
        <div class="curve-scale" aria-hidden="true">
          <span>{first ? lossText(high) : ''}</span>
          <span>{first ? lossText(low) : ''}</span>
        </div>
      </div>
      <figcaption>
        <span>{curve[0] ? `step ${curve[0].step + 1}` : 'No step is done yet.'}</span>
        <span>{last ? `step ${last.step + 1}` : ''}</span>
      </figcaption>
    </figure>
  );
}
