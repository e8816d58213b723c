/** What is worked out again only when what it was worked out of has changed, however many ask. */
export function keptWhile<T>(version: () => unknown, work: () => T): () => T {
  let kept: { readonly of: unknown; readonly value: T } | null = null;
  return () => {
    const now = version();
    if (kept === null || kept.of !== now) kept = { of: now, value: work() };
    return kept.value;
  };
}
