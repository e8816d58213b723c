export function backportsOf(
  release: string,
  lists: readonly string[],
): { readonly suite: string; readonly text: string | null } | null;
