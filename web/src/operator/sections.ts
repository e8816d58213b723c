/** The parts of the dashboard, each with an address of its own (`/operator#swarm`), so that a reload comes back to it. */
export const SECTIONS = [
  ['run', 'Overview'],
  ['swarm', 'Swarm'],
  ['peers', 'Donors'],
  ['runs', 'Runs'],
  ['samples', 'Samples'],
  ['settings', 'Settings'],
] as const;
export type Section = (typeof SECTIONS)[number][0];

/** Of the address's fragment, up to a question mark; any other word is the first part. */
export const sectionOf = (hash: string): Section =>
  SECTIONS.find(([section]) => hash.split('?')[0] === `#${section}`)?.[0] ?? 'run';
