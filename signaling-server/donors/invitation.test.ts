import { expect, test, vi } from 'vitest';
import { Invitation } from './invitation.ts';

const [HERE, THERE] = ['192.0.2.1', '192.0.2.2'];

test('after forty wrong invitations in a minute an address is not told whether the next is right', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const invitation = new Invitation('fish');
    for (let visit = 0; visit < 100; visit++) expect(invitation.problem(undefined, HERE)).toBe('notInvited');
    const answers = Array.from({ length: 100 }, (_, number) => invitation.problem(`word ${number}`, HERE));
    expect(answers).toEqual([...Array(40).fill('notInvited'), ...Array(60).fill('wrongInvitations')]);
    expect(invitation.problem('fish', HERE)).toBe('wrongInvitations');
    expect(invitation.problem('fish', THERE)).toBeNull();
    vi.advanceTimersByTime(60_000);
    expect(invitation.problem('fish', HERE)).toBeNull();
    expect(invitation.problem(undefined, HERE)).toBe('notInvited');
  } finally {
    vi.useRealTimers();
  }
});

test('where nobody is invited everyone may come', () => {
  expect(new Invitation(null).problem('anything', HERE)).toBeNull();
});
