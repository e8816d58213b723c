import { expect, test } from 'vitest';
import { aptGet } from './aptGet.mjs';

/** As apt 2.6 says it. */
const LISTS =
  'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\nE: Unable to lock directory /var/lib/apt/lists/';
const DPKG =
  'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)\nE: Unable to acquire the dpkg frontend lock';

/** An apt-get that answers so, one time after the other, the last one for ever. */
async function against(...answers: readonly (string | null)[]) {
  const said: string[] = [];
  let tries = 0;
  const attempt = () => {
    const errors = answers[Math.min(tries++, answers.length - 1)] ?? null;
    return { ok: errors === null, errors: errors ?? '' };
  };
  const ok = await aptGet(['update'], (text) => said.push(text), { attempt, wait: async () => {} });
  return { ok, tries, said };
}

test('a lock that another apt holds is waited for, and the person is told once', async () => {
  const said = ['another apt is at work on this machine: waiting for it'];
  expect(await against(LISTS, LISTS, DPKG, null)).toEqual({ ok: true, tries: 4, said });
});

test('what is no lock is no reason to wait', async () => {
  expect(await against(null)).toEqual({ ok: true, tries: 1, said: [] });
  expect(await against('')).toEqual({ ok: false, tries: 1, said: [] });
});

test('a lock that is held for ten minutes is given up on', async () => {
  const { ok, tries, said } = await against(LISTS);
  expect({ ok, tries }).toEqual({ ok: false, tries: 601 });
  expect(said.at(-1)).toBe('another apt was still at work after 10 minutes');
});
