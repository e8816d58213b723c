/** What both pages are made of. Pure views. */
import type { ComponentChildren } from 'preact';
import { seededRandom } from '../../../swarm/base.ts';
import { invitedLink } from './ask.ts';
import { NOTHING } from './format.ts';

/** One fish, nose to the right, 20 long, around the origin. */
const FISH = 'M10 0C5-6-3-6-7-1L-10-4V4L-7 1C-3 6 5 6 10 0Z';

const LOGO = [
  [19, 9],
  [9, 17],
  [21, 24],
] as const;

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      {LOGO.map(([x, y]) => (
        <path key={y} d={FISH} transform={`translate(${x} ${y}) scale(.8)`} />
      ))}
    </svg>
  );
}

interface BannerProps {
  readonly page: string;
  readonly invite: string | null;
  readonly children?: ComponentChildren;
}

export function Banner({ page, invite, children }: BannerProps) {
  return (
    <header class="banner">
      <a class="brand" href={invitedLink('/', invite)}>
        <Logo />
        <span>Shoal</span>
      </a>
      <span class="page-name">{page}</span>
      <span class="banner-end">{children}</span>
    </header>
  );
}

/** Half the height of a big fish `x` from its tail (-1) to its nose (1): a fork, a waist, a body. */
function outline(x: number): number {
  if (x < -0.72) return 0.14 + (-0.72 - x) * 1.9;
  const body = Math.sqrt(Math.max(0, 1 - ((x - 0.22) / 0.78) ** 2));
  return 0.1 + 0.68 * body * Math.min(1, 0.3 + (x + 0.72) * 1.5);
}

/** Many small fish in the shape of a big one, row by row, a little out of line. */
const SHOAL: readonly (readonly [x: number, y: number, scale: number])[] = (() => {
  const random = seededRandom(7);
  const fish: [number, number, number][] = [];
  for (let row = -5; row <= 5; row++) {
    for (let column = -9; column <= 9; column++) {
      const x = (column + (row & 1 ? 0.5 : 0)) / 9;
      if (Math.abs(x) > 1 || Math.abs(row) / 7 > outline(x)) continue;
      fish.push([x * 190 + random() * 7 - 3.5, row * 15.5 + random() * 5 - 2.5, 0.55 + 0.35 * random()]);
    }
  }
  return fish;
})();

export function Shoal() {
  return (
    <svg class="shoal" viewBox="-215 -90 430 180" aria-hidden="true">
      {SHOAL.map(([x, y, scale]) => (
        <path
          key={`${x} ${y}`}
          d={FISH}
          transform={`translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${scale.toFixed(2)})`}
        />
      ))}
    </svg>
  );
}

interface ChipProps {
  readonly tone: string;
  readonly glyph: string;
  readonly word: string;
  /** Read out when it changes; for the one state that a person waits for. */
  readonly announced?: boolean;
}

/** A state: glyph and word in a tone. */
export function Chip({ tone, glyph, word, announced = false }: ChipProps) {
  return (
    <span class={`chip ${tone}`} role={announced ? 'status' : undefined}>
      <span class="glyph" aria-hidden="true">
        {glyph}
      </span>
      {word}
    </span>
  );
}

interface PressProps {
  /** It cannot be pressed for the moment. */
  readonly isOff?: boolean;
  /** Why not, in a sentence: read out with the button's name, and shown beside the pointer. */
  readonly why?: string;
  readonly class?: string;
  readonly onPress: () => void;
  /** Instead, while it is off. */
  readonly onRefused?: () => void;
  readonly children: ComponentChildren;
}

/** A button that keeps the keyboard's place while it is off: a disabled one would lose it, and could not say why. */
export function Press({ isOff = false, why, class: name, onPress, onRefused, children }: PressProps) {
  const press = isOff ? onRefused : onPress;
  return (
    <button type="button" class={name} title={why} aria-disabled={isOff || undefined} onClick={() => press?.()}>
      {children}
    </button>
  );
}

interface StatProps {
  readonly label: string;
  readonly value: string;
  readonly note?: string | undefined;
}

/** One number with its name and a small word about it; the note's line stays where there is none. */
export function Stat({ label, value, note }: StatProps) {
  return (
    <div class="stat">
      <dt>{label}</dt>
      <dd>
        <span class="value">{value}</span>
        <span class="note">{note ?? '\u00a0'}</span>
      </dd>
    </div>
  );
}

export function StepProgress({ done, steps, note }: { done: number | null; steps: number; note: string }) {
  return (
    <div class="steps">
      <div class="steps-line">
        <span>
          Step <strong>{done?.toLocaleString('en') ?? NOTHING}</strong> of{' '}
          {steps > 0 ? steps.toLocaleString('en') : NOTHING}
        </span>
        <span class="soft small">{note}</span>
      </div>
      <progress max={Math.max(1, steps)} value={done ?? 0} aria-label="Steps done" />
    </div>
  );
}
