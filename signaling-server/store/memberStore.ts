/**
 * Donors who chose to be named, and the peer ids under which they worked since. Credit stays in the ledger
 * of committed steps; a name is only tied to the ids that its donor had while it was named, and untied when it is deleted.
 * A donor is known by the hash of a random key that its browser remembers.
 */
import { hash } from 'node:crypto';
import type { PeerId } from '../../swarm/base.ts';
import { lookOf } from '../../swarm/messages/publicName.ts';
import type { Queries } from './queries.ts';

/** Above it, the oldest names that never computed are deleted, so many at once. */
const NAMES_KEPT = 10_000;
const PRUNE_EVERY = 64;

interface Member {
  readonly id: string;
  readonly name: string;
  readonly team: string;
}

/** Of the key alone: the same person with another GPU. */
export const memberId = (key: string): string => hash('sha256', `member ${key}`);

export const memberStore = ({ one, many, run, atomically }: Queries) => ({
  saveMember: ({ id, name, team }: Member, nowMs: number) =>
    atomically(() => {
      const isNew = one('SELECT 1 FROM member WHERE id = ?', id) === null;
      const update = 'ON CONFLICT (id) DO UPDATE SET name = excluded.name, team = excluded.team, look = excluded.look';
      run(
        `INSERT INTO member (id, name, team, savedAtMs, look) VALUES (?, ?, ?, ?, ?) ${update}`,
        ...[id, name, team, nowMs, lookOf(name)],
      );
      const names = isNew ? (one<{ names: number }>('SELECT count(*) AS names FROM member')?.names ?? 0) : 0;
      if (names <= NAMES_KEPT || names % PRUNE_EVERY !== 0) return;
      const idle = 'id <> ? AND NOT EXISTS (SELECT 1 FROM memberPeer WHERE memberPeer.member = member.id)';
      run(
        `DELETE FROM member WHERE id IN (SELECT id FROM member WHERE ${idle} ORDER BY savedAtMs, id LIMIT ?)`,
        ...[id, names - NAMES_KEPT],
      );
    }),
  member: (id: string) => one<Member>('SELECT id, name, team FROM member WHERE id = ?', id),
  /** Whoever has this name, or one that looks like it. */
  memberNamed: (name: string) => one<{ id: string }>('SELECT id FROM member WHERE look = ?', lookOf(name))?.id ?? null,
  /** The name, and every trace of which ids it belonged to. */
  deleteMember: (id: string) => run('DELETE FROM member WHERE id = ?', id),
  /** What this peer carries counts for the member, where there is one of that id. */
  linkMember: (name: string, peer: PeerId, id: string) =>
    run('INSERT OR IGNORE INTO memberPeer SELECT ?, ?, id FROM member WHERE id = ?', name, peer, id),
  /** This peer carries nothing any more, and never did. */
  unlinkPeer: (name: string, peer: PeerId) =>
    run(
      'DELETE FROM memberPeer WHERE run = ? AND peer = ? AND NOT EXISTS (SELECT 1 FROM credit WHERE credit.run = memberPeer.run AND credit.donor = memberPeer.peer)',
      ...[name, peer],
    ),
  /** Members of a run, with the tokens of committed steps that they carried under any of their ids. */
  memberCredit: (name: string) =>
    many<Member & { readonly tokens: number }>(
      `SELECT id, name, team, coalesce(sum(credit.tokens), 0) AS tokens
       FROM memberPeer JOIN member ON memberPeer.member = member.id
       LEFT JOIN credit ON credit.run = memberPeer.run AND credit.donor = memberPeer.peer
       WHERE memberPeer.run = ? GROUP BY id ORDER BY id`,
      name,
    ),
});
