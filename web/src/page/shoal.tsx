/**
 * The donors of a run as fish: one for each, yours marked, those on standby at the edge. Each committed step is a stroke.
 * It costs little beside training: eight redraws a second while something moves, none while the page is hidden, and
 * nothing moves where the person wants no motion.
 */

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { arrayOf } from '../../../swarm/base.ts';
import type { About } from '../../../swarm/messages/about.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { counted } from '../../../swarm/quantityText.ts';
import {
  ARRIVAL_MS,
  arrivalAt,
  EDGE_PLACES,
  FISH,
  nextPlaces,
  type Place,
  type Placed,
  placesFor,
  SCHOOLS,
  STROKE_MS,
  strokeAt,
} from '../../../swarm/shoalPlaces.ts';
import { monotonicMs } from './clock.ts';

const REDRAW_MS = 125;
const FEW = 12;

export interface Fish {
  readonly id: string;
  readonly isTraining: boolean;
  /** It gets ready for a plan: among the others, whatever it did before. */
  readonly isComing?: boolean;
  readonly isOwn: boolean;
}

/** Not at the edge. */
const isIn = ({ isTraining, isComing = false }: Fish): boolean => isTraining || isComing;

interface ShoalProps {
  readonly fish: readonly Fish[];
  /** Committed steps. */
  readonly steps: number;
  /** For a page that hears of steps now and then only: the pace of the run; null: each is heard. */
  readonly stepsPerSecond: number | null;
}

const transformOf = ({ x, y, scale }: Place, grown = 1): string =>
  `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${(scale * grown).toFixed(2)})`;

/** In words, for who cannot see it. */
function shoalText(fish: readonly Fish[]): string {
  const training = fish.filter(({ isTraining }) => isTraining);
  const waiting = fish.filter((each) => !isIn(each)).length;
  const yours = training.some(({ isOwn }) => isOwn) ? ', yours among them' : '';
  return `${trainingText(training.length)}${yours}${waiting > 0 ? `; ${waiting} on standby or at rest` : ''}.`;
}

export const trainingText = (donors: number): string =>
  donors === 0 ? 'Nobody is training right now' : `${counted(donors, 'GPU')} training`;

export function Shoal({ fish, steps, stepsPerSecond }: ShoalProps) {
  const drawing = useRef<SVGSVGElement>(null);
  const placed = useRef<Placed>(new Map());
  const edge = useRef<Placed>(new Map());
  const motion = useRef<Motion | null>(null);
  const key = fish.map((each) => `${each.id}${each.isTraining}${isIn(each)}${each.isOwn}`).join();
  const drawn = useMemo(() => {
    const swimming = fish.filter(isIn);
    const places = placesFor(swimming.length);
    const known = placed.current;
    placed.current = nextPlaces(known, idsOf(swimming), places.length);
    edge.current = nextPlaces(edge.current, idsOf(fish.filter((each) => !isIn(each))), EDGE_PLACES.length);
    // Who was here when the page was opened does not arrive.
    if (known.size > 0) for (const id of placed.current.keys()) if (!known.has(id)) motion.current?.arrives(id);
    return <Drawn fish={fish} places={places} placed={placed.current} edge={edge.current} />;
  }, [key]);
  useEffect(() => {
    const own = new Motion(() => drawing.current);
    motion.current = own;
    return () => own.close();
  }, []);
  useEffect(() => motion.current?.beat(), [steps]);
  useEffect(() => {
    if (stepsPerSecond === null || stepsPerSecond <= 0) return;
    const timer = setInterval(() => motion.current?.beat(), Math.max(STROKE_MS, 1_000 / stepsPerSecond));
    return () => clearInterval(timer);
  }, [stepsPerSecond === null ? null : Math.round(Math.log2(stepsPerSecond))]);
  return (
    <svg class="shoal" viewBox="-275 -90 490 180" role="img" aria-label={shoalText(fish)} ref={drawing}>
      {drawn}
    </svg>
  );
}

const idsOf = (fish: readonly Fish[]): readonly string[] => fish.map(({ id }) => id);

interface DrawnProps {
  readonly fish: readonly Fish[];
  readonly places: readonly Place[];
  readonly placed: Placed;
  readonly edge: Placed;
}

/** The shape that donors fill, and the donors; who is yours is larger, in a ring, and not told by its colour alone. */
function Drawn({ fish, places, placed, edge }: DrawnProps) {
  // A few are seen better when they are larger.
  const grown = placed.size <= FEW ? 1.5 : 1.1;
  const school = (number: number) =>
    fish.flatMap((each) => {
      const { id, isTraining, isOwn } = each;
      const place = (isIn(each) ? placed : edge).get(id);
      const at = place === undefined ? undefined : (isIn(each) ? places : EDGE_PLACES)[place];
      if (place === undefined || at === undefined || place % SCHOOLS !== number) return [];
      const kind = `${isTraining ? 'training' : isIn(each) ? 'coming' : 'waiting'}${isOwn ? ' own' : ''}`;
      return [
        <g key={id} data-fish={id}>
          {isOwn && <circle class="ring" cx={at.x} cy={at.y} r={Math.max(9, at.scale * 15 * grown)} />}
          <path class={kind} d={FISH} transform={transformOf(at, (isOwn ? 1.25 : 1) * (isIn(each) ? grown : 1))} />
        </g>,
      ];
    });
  return (
    <>
      <g class="free">
        {places.map((place) => (
          <path key={`${place.x} ${place.y}`} d={FISH} transform={transformOf(place)} />
        ))}
      </g>
      {arrayOf(SCHOOLS, (number) => (
        <g key={number} class="school">
          {school(number)}
        </g>
      ))}
    </>
  );
}

/** Moves what is drawn. Owns one timer, which runs only while something moves. */
class Motion {
  readonly #drawing: () => SVGSVGElement | null;
  readonly #arrivals = new Map<string, number>();
  #beatAtMs = -Infinity;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(drawing: () => SVGSVGElement | null) {
    this.#drawing = drawing;
  }

  /** A step was committed; one that comes in the middle of a stroke makes no other one. */
  beat(): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#beatAtMs < STROKE_MS) return;
    if (this.#begin()) this.#beatAtMs = nowMs;
  }

  arrives(id: string): void {
    if (this.#begin()) this.#arrivals.set(id, monotonicMs());
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #begin(): boolean {
    if (document.hidden || matchMedia('(prefers-reduced-motion: reduce)').matches) return false;
    this.#timer ??= setInterval(() => this.#draw(), REDRAW_MS);
    return true;
  }

  #draw(): void {
    const svg = this.#drawing();
    if (svg === null || document.hidden) {
      this.close();
      return;
    }
    const nowMs = monotonicMs();
    const sinceMs = nowMs - this.#beatAtMs;
    for (const [number, school] of [...svg.querySelectorAll('.school')].entries())
      school.setAttribute('transform', `translate(${strokeAt(number, sinceMs).toFixed(1)} 0)`);
    for (const [id, bornMs] of this.#arrivals) {
      const behind = arrivalAt(nowMs - bornMs);
      svg
        .querySelector(`[data-fish="${CSS.escape(id)}"]`)
        ?.setAttribute('transform', `translate(${behind.toFixed(1)} 0)`);
      if (nowMs - bornMs >= ARRIVAL_MS) this.#arrivals.delete(id);
    }
    if (sinceMs >= STROKE_MS && this.#arrivals.size === 0) this.close();
  }
}

interface CountedShoalProps {
  readonly status: PublicStatus | null;
  readonly about: About | null;
  /** What is known is of some time ago: nothing moves. */
  readonly isOld?: boolean;
}

/** So many donors as the server says, by their number alone. */
export function CountedShoal({ status, about, isOld = false }: CountedShoalProps) {
  const donors = status?.donors ?? 0;
  const fish = useMemo(
    () => arrayOf(donors, (at): Fish => ({ id: `${at}`, isTraining: true, isOwn: false })),
    [donors],
  );
  const pace = !isOld && status?.tokensPerSecond && about ? status.tokensPerSecond / about.stepTargets : null;
  return <Shoal fish={fish} steps={status?.committedSteps ?? 0} stepsPerSecond={pace} />;
}
