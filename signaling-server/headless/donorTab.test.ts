/** What cannot be done to a donor is said before a run begins. */
import { expect, test } from 'vitest';
import { parseChaosScript } from '../faults/chaosScript.ts';
import { impossibleFault } from './donorTab.ts';

/** Donor 1 is a Firefox, all others are not. */
function faultIn(script: string): string | null {
  const entries = parseChaosScript(script, 3);
  if (!entries.ok) throw new Error(entries.reason);
  return impossibleFault(entries.value, (donor) => (donor === 1 ? 'firefox' : 'chromium'));
}

test.each(['kill:1@5', 'freeze:1@7+10s', 'slow:1@5*3', 'leave:1@8', 'nan:1@3', 'mute:1@6', 'join@9', 'server-kill@12'])(
  '%s can be done to a Firefox',
  (script) => {
    expect(faultIn(script)).toBeNull();
  },
);

test.each(['cut:1@4+20s', 'gpu-lost:1@11'])('%s cannot, and is refused by its name', (entry) => {
  expect(faultIn(`kill:0@2,${entry}`)).toContain(`--chaos ${entry}: donor 1 is a Firefox`);
  expect(faultIn(entry.replace(':1', ':0'))).toBeNull();
});
