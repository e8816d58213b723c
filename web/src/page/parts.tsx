/** What both pages are made of. Pure views. */

import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { durationText } from '../../../swarm/quantityText.ts';
import { FISH } from '../../../swarm/shoalPlaces.ts';
import { invitedLink } from './ask.ts';
import { NOTHING } from './format.ts';

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

interface CardProps {
  readonly id: string;
  readonly title: ComponentChildren;
  /** At the end of the title's line. */
  readonly beside?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** A part of a page under a title, by which screen readers know it. */
export function Card({ id, title, beside, children }: CardProps) {
  const head = <h2 id={id}>{title}</h2>;
  return (
    <section class="card" aria-labelledby={id}>
      {beside ? (
        <div class="live-head">
          {head}
          {beside}
        </div>
      ) : (
        head
      )}
      {children}
    </section>
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

interface SmallButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** For a screen reader: which of several rows it is of. */
  readonly about?: string;
}

export function SmallButton({ about = '', children, ...button }: SmallButtonProps) {
  return (
    <button type="button" class="small" {...button}>
      {children}
      {about !== '' && <span class="hidden"> {about}</span>}
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

interface ProgressProps {
  readonly done: number | null;
  readonly steps: number;
  readonly note: string;
  /** Of a run that ends with its time, which is what it shows then. */
  readonly time?: { readonly seconds: number; readonly usedSeconds: number } | undefined;
}

export function StepProgress({ done, steps, note, time }: ProgressProps) {
  if (time) {
    const left = Math.max(0, time.seconds - time.usedSeconds);
    return (
      <div class="steps">
        <div class="steps-line">
          <span>
            <strong>{durationText(left)}</strong> left of {durationText(time.seconds)}, step{' '}
            {done?.toLocaleString('en') ?? NOTHING}
          </span>
          <span class="soft small">{note}</span>
        </div>
        <progress max={time.seconds} value={time.usedSeconds} aria-label="Time used" />
      </div>
    );
  }
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

const COLOURS: Readonly<Record<string, string>> = { good: '#17693b', wait: '#b26a00', bad: '#a3262a', calm: '#5b6b74' };
const PLACES = ['19 9', '10.5 16.5', '20.5 24'];

/** The tab's icon in the colour of a state; its title has the same in words. */
export function iconOf(tone: string): string {
  const fish = PLACES.map((place) => `<path d="${FISH}" transform="translate(${place}) scale(.7)"/>`).join('');
  const ground = `<rect width="32" height="32" rx="7" fill="${COLOURS[tone] ?? COLOURS.calm}"/>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${ground}<g fill="#fff">${fish}</g></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
