/**
 * What donors measured, kept for their next visit. A donor is known by a random key that its browser remembers, never by
 * its address, and of the key only the hash is kept; the newest ones of a run, up to a bound.
 */
import { hash } from 'node:crypto';
import { type PeerProfile, peerProfileSchema } from '../../swarm/autoplan/peerProfile.ts';
import type { AdapterProfile } from '../../swarm/messages/profile.ts';
import type { Queries } from './queries.ts';

const PROFILES_KEPT = 10_000;

/** Another GPU of the same browser is another donor. */
export const donorHash = (key: string, adapter: AdapterProfile): string =>
  hash('sha256', JSON.stringify([key, adapter.vendor, adapter.architecture, adapter.description, adapter.software]));

export const profileStore = ({ one, run, atomically }: Queries) => ({
  saveProfile: (name: string, donor: string, profile: PeerProfile, nowMs: number) =>
    atomically(() => {
      run('INSERT OR REPLACE INTO profile VALUES (?, ?, ?, ?)', name, donor, JSON.stringify(profile), nowMs);
      run(
        `DELETE FROM profile WHERE run = ? AND savedAtMs < (SELECT savedAtMs FROM profile WHERE run = ? ORDER BY savedAtMs DESC LIMIT 1 OFFSET ${PROFILES_KEPT})`,
        ...[name, name],
      );
    }),
  /** Null where there is none, or one that an earlier version wrote otherwise. */
  profile: (name: string, donor: string): PeerProfile | null => {
    const row = one<{ profile: string }>('SELECT profile FROM profile WHERE run = ? AND donor = ?', name, donor);
    return row && (peerProfileSchema.safeParse(JSON.parse(row.profile)).data ?? null);
  },
});
