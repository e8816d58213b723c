/**
 * A part of a page that is drawn anew only while somebody sees it. Its one idea: the same nodes as last time cost
 * nothing. What is out of sight follows now and then, for who reads the page otherwise than by eye, and at once when it
 * comes into sight.
 */
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';

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

interface SightProps {
  readonly tag: 'li' | 'tr' | 'section';
  readonly class?: string;
  readonly labelledBy?: string;
  /** When it changes the part is drawn, seen or not: what a person has just chosen. */
  readonly renew?: unknown;
  readonly children: ComponentChildren;
}

export function Sight({ tag: Tag, class: name, labelledBy, renew, children }: SightProps) {
  const [, redraw] = useState(0);
  const own = useRef({ isSeen: true, skipped: turns++ % UNSEEN_REDRAWS, renew, children }).current;
  const watch = useRef((element: Element | null) => {
    if (element === null) return;
    watched.set(element, (isSeen) => {
      if (isSeen && !own.isSeen) redraw((count) => count + 1);
      own.isSeen = isSeen;
    });
    observer.observe(element);
    return () => {
      observer.unobserve(element);
      watched.delete(element);
    };
  }).current;
  own.skipped += 1;
  if (own.isSeen || own.renew !== renew || own.skipped >= UNSEEN_REDRAWS)
    Object.assign(own, { renew, children, skipped: 0 });
  return (
    <Tag ref={watch} class={name} aria-labelledby={labelledBy}>
      {own.children}
    </Tag>
  );
}
