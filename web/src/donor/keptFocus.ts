/**
 * The keyboard's place. What is pressed may go with what it did, or be switched off; the focus would fall to the top of
 * the page without a word. It goes to what names the nearest part that is still there, a card's summary or the page's
 * heading.
 */
import { useEffect } from 'preact/hooks';

export function useKeptFocus(): void {
  useEffect(() => {
    let held: { readonly element: Element; readonly card: Element | null } | null = null;
    const isGone = (element: Element): boolean => !element.isConnected || element.matches(':disabled');
    const hold = ({ target }: FocusEvent): void => {
      if (target instanceof Element) held = { element: target, card: target.closest('.card') };
    };
    // A person who looks elsewhere lets go of it. What is about to be removed is blurred first.
    const letGo = ({ target }: FocusEvent): void =>
      queueMicrotask(() => {
        if (target === held?.element && !isGone(held.element)) held = null;
      });
    const mend = (): void => {
      if (held === null || !isGone(held.element)) return;
      const { element, card } = held;
      held = null;
      const { activeElement } = document;
      if (activeElement !== document.body && activeElement !== element) return;
      const name = card?.isConnected ? card.querySelector<HTMLElement>(':scope > summary, h1[tabindex]') : null;
      (name ?? document.querySelector<HTMLElement>('main h1'))?.focus({ preventScroll: name === null });
    };
    const observer = new MutationObserver(mend);
    observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ['disabled'] });
    document.addEventListener('focusin', hold);
    document.addEventListener('focusout', letGo);
    return () => {
      observer.disconnect();
      document.removeEventListener('focusin', hold);
      document.removeEventListener('focusout', letGo);
    };
  }, []);
}
