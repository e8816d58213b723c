import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { at } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { Invitation } from './invitation.ts';
import { type Wrong, WrongInvitations } from './wrongInvitations.ts';

const [HERE, THERE] = ['192.0.2.1', '192.0.2.2'];

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] }));
afterEach(() => void vi.useRealTimers());

/** Processes of a site whose words to each other take so long. */
function site(processes: number, delayMs: number): readonly { wrong: WrongInvitations; invitation: Invitation }[] {
  const all: WrongInvitations[] = [];
  const tell = (from: number, name: string, { count, sinceMs }: Wrong): void => {
    const agoMs = monotonicMs() - sinceMs;
    const told = (other: WrongInvitations, to: number): void => {
      if (to !== from) other.heard(String(from), name, { count, sinceMs: monotonicMs() - agoMs });
    };
    setTimeout(() => all.forEach(told), delayMs);
  };
  for (let number = 0; number < processes; number++) {
    const onCounted = (name: string, wrong: Wrong): void => tell(number, name, wrong);
    all.push(new WrongInvitations({ nameOf: (address) => `of ${address}`, onCounted }));
  }
  return all.map((wrong) => ({ wrong, invitation: new Invitation('fish', wrong) }));
}

test('an address that asks several processes by turns says forty wrong invitations a minute, not forty at each', () => {
  const processes = site(3, 5);
  let told = 0;
  for (let guess = 0; guess < 300; guess++) {
    const { invitation } = at(processes, guess % 3);
    if (invitation.problem(`word ${guess}`, HERE) === 'notInvited') told++;
    vi.advanceTimersByTime(5);
  }
  expect(told).toBe(40);
  for (const { invitation } of processes) {
    expect(invitation.problem('fish', HERE)).toBe('wrongInvitations');
    expect(invitation.problem('fish', THERE)).toBeNull();
  }
  vi.advanceTimersByTime(60_000);
  for (const { invitation } of processes) expect(invitation.problem('fish', HERE)).toBeNull();
});

test('what two processes count at once is added up; the minute is that of whichever counted first', () => {
  const processes = site(2, 5);
  const [first, second] = [at(processes, 0).wrong, at(processes, 1).wrong];
  const counts = (): readonly number[] => [first.count(HERE), second.count(HERE)];
  for (let guess = 0; guess < 10; guess++) for (const wrong of [first, second]) wrong.add(HERE);
  expect(counts()).toEqual([10, 10]);
  vi.advanceTimersByTime(5);
  expect(counts()).toEqual([20, 20]);
  vi.advanceTimersByTime(50_000);
  second.add(HERE);
  vi.advanceTimersByTime(5);
  expect(counts()).toEqual([21, 21]);
  vi.advanceTimersByTime(10_000);
  expect(counts()).toEqual([0, 0]);
});
