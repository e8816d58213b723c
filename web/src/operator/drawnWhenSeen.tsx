/**
 * A part of a page that is drawn anew only while somebody sees it. The same nodes as last time cost nothing. What is
 * out of sight follows now and then, for who reads the page otherwise than by eye, and at once when it comes into
 * sight. In a hidden tab nothing is.
 */
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { ROW } from '../page/stacks.tsx';

/** Out of sight one redraw of so many counts: at four a second that is every five seconds. */
const UNSEEN_REDRAWS = 20;

const watched = new Map<Element, (isSeen: boolean) => void>();
/** A little ahead of who scrolls. */
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
  },
  { rootMargin: '20%' },
);

/** Neighbours take turns. */
let turns = 0;

/** Once nothing was drawn for so long, what is out of sight follows as well. */
const QUIET_MS = 1_000;
const behind = new Map<object, () => void>();
let drawnAtMs = 0;
let timer: ReturnType<typeof setTimeout> | null = null;

function catchUp(): void {
  if (!document.hidden) for (const follow of [...behind.values()]) follow();
}
document.addEventListener('visibilitychange', catchUp);

function catchUpWhenQuiet(): void {
  drawnAtMs = performance.now();
  timer ??= setTimeout(function look() {
    const wait = drawnAtMs + QUIET_MS - performance.now();
    timer = wait > 0 ? setTimeout(look, wait) : null;
    if (timer === null) catchUp();
  }, QUIET_MS);
}

interface DrawnWhenSeenProps {
  readonly tag: 'li' | 'tr' | 'section';
  readonly class?: string;
  readonly labelledBy?: string;
  /** When it changes the part is drawn, seen or not: what a person has just chosen. */
  readonly renew?: unknown;
  readonly children: ComponentChildren;
}

export function DrawnWhenSeen({ tag: Tag, class: name, labelledBy, renew, children }: DrawnWhenSeenProps) {
  const [, redraw] = useState(0);
  const own = useRef({ isSeen: true, skipped: turns++ % UNSEEN_REDRAWS, renew, children }).current;
  const follow = (): void => {
    own.skipped = UNSEEN_REDRAWS;
    redraw((count) => count + 1);
  };
  const watch = useRef((element: Element | null) => {
    if (element === null) return;
    watched.set(element, (isSeen) => {
      if (isSeen && !own.isSeen) follow();
      own.isSeen = isSeen;
    });
    observer.observe(element);
    return () => {
      observer.unobserve(element);
      watched.delete(element);
      behind.delete(own);
    };
  }).current;
  own.skipped += 1;
  const isDue = !document.hidden && (own.isSeen || own.skipped >= UNSEEN_REDRAWS);
  if (isDue || own.renew !== renew) {
    Object.assign(own, { renew, children, skipped: 0 });
    behind.delete(own);
  } else {
    behind.set(own, follow);
    catchUpWhenQuiet();
  }
  return (
    <Tag ref={watch} {...(Tag === 'tr' ? ROW : {})} class={name} aria-labelledby={labelledBy}>
      {own.children}
    </Tag>
  );
}
