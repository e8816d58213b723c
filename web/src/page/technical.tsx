/** What a sentence for people leaves out, behind a word: digests, tensors, numbers. Pure view. */
export function Technical({ detail }: { readonly detail: string | null | undefined }) {
  if (!detail) return null;
  return (
    <details class="technical small">
      <summary>Technical details</summary>
      {detail}
    </details>
  );
}
