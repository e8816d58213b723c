/** What both pages are made of. Pure views. */
import type { ComponentChildren } from 'preact';

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

export function Banner({ page, children }: { page: string; children?: ComponentChildren }) {
  return (
    <header class="banner">
      <a class="brand" href="/">
        <Logo />
        <span>Shoal</span>
      </a>
      <span class="page-name">{page}</span>
      <span class="banner-end">{children}</span>
    </header>
  );
}

/** Half the height of a big fish at `x` from -1 (tail) to 1 (nose). */
function outline(x: number): number {
  if (x < -0.62) return 0.1 + (-0.62 - x) * 1.5;
  return 0.12 + 0.62 * Math.sqrt(Math.max(0, 1 - ((x - 0.17) / 0.83) ** 2)) * (x < -0.4 ? 0.55 + (x + 0.62) * 2 : 1);
}

/** Many small fish in the shape of a big one, row by row. */
const SHOAL: readonly (readonly [x: number, y: number, scale: number])[] = (() => {
  const fish: [number, number, number][] = [];
  for (let row = -5; row <= 5; row++) {
    for (let column = -12; column <= 12; column++) {
      const x = (column + (row & 1 ? 0.5 : 0)) / 12;
      const y = row / 6;
      if (Math.abs(x) > 1 || Math.abs(y) > outline(x)) continue;
      const wave = Math.sin(column * 12.9898 + row * 78.233); // the same uneven rows at every visit
      fish.push([x * 190 + wave * 3, y * 92 + wave * 2.5, 0.5 + 0.12 * wave]);
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

/** A state: glyph and word in a tone. */
export function Chip({ tone, glyph, word }: { tone: string; glyph: string; word: string }) {
  return (
    <span class={`chip ${tone}`}>
      <span class="glyph" aria-hidden="true">
        {glyph}
      </span>
      {word}
    </span>
  );
}

export interface StatProps {
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
          Step <strong>{done === null ? '–' : done.toLocaleString('en')}</strong> of {steps.toLocaleString('en')}
        </span>
        <span class="soft">{note}</span>
      </div>
      <progress max={Math.max(1, steps)} value={done ?? 0} aria-label="Steps done" />
    </div>
  );
}
