/** How the donors work together. */
import { Links } from './links.tsx';
import type { SectionProps } from './view.tsx';

export function SwarmSection({ snapshot }: SectionProps) {
  return <Links links={snapshot.links ?? []} />;
}
