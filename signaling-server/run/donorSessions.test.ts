/** What a server learns of how long donors stay. */
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, it } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { SESSION_SECONDS } from '../../swarm/planner/cluster.ts';
import { storeOn } from '../store/store.ts';
import { DonorSessions } from './donorSessions.ts';
import type { DonorEvent } from './runObserver.ts';

type Joined = Extract<DonorEvent, { type: 'joined' }>['connection'];

it('[PL57] visits outlast the server; its own donors are none, and who is still here has not ended', () => {
  const store = storeOn(new DatabaseSync(':memory:'));
  let nowMs = Date.UTC(2026, 10, 30, 12);
  const opened = () => new DonorSessions(store, 'r', () => nowMs);
  let sessions = opened();
  const comes = (name: string, isOwn = false): void =>
    sessions.event({ type: 'joined', connection: { peer: peerId(name), donor: null, isOwn } as Joined });
  const goes = (name: string): void => sessions.event({ type: 'gone', peer: peerId(name), detail: '' });
  comes('own', true);
  expect(sessions.expectedOf(peerId('own'))).toBeUndefined();
  for (let i = 0; i < 20; i++) comes(`donor-${i}`);
  expect(sessions.expectedOf(peerId('donor-0'))).toBe(SESSION_SECONDS);
  nowMs += 600_000;
  for (let i = 0; i < 20; i++) goes(`donor-${i}`);
  comes('last');
  nowMs += 60_000;
  sessions.close();
  expect(store.stays().map(({ seconds, hasEnded }) => [seconds, hasEnded])).toEqual([
    ...Array.from({ length: 20 }, () => [600, true]),
    [60, false],
  ]);
  sessions = opened();
  comes('next');
  // All 20 ends are at 600 s, and who was lost from sight before says nothing of later.
  expect(sessions.expectedOf(peerId('next'))).toBeCloseTo((20 * 600 + 5 * SESSION_SECONDS) / 25, 6);
});
