/** The dashboard of a run of many donors, as `shoal bench dashboard` feeds and watches it: for a minute, and untimed. */
import { expect, test } from 'vitest';
import { shoal } from './product.ts';

const SECONDS = 60;

test('a minute of a run of 256 donors: memory stays flat, what is told is shown, names are text, nothing moves', async () => {
  const { code, stdout, stderr } = await shoal('bench', 'dashboard', '--seconds', String(SECONDS), '--json');
  expect(code, stderr).toBe(0);
  const { heapQuarters, redrawsPerSecond, layoutShift, shifted, faults } = JSON.parse(stdout);
  expect(faults).toEqual([]);
  expect(redrawsPerSecond).toBeGreaterThan(0);
  expect(heapQuarters[1]).toBeLessThan(1.15 * heapQuarters[0]);
  for (const part of ['Overview', 'Swarm', 'Donors'])
    expect(layoutShift[part], `${part}: ${shifted}`).toBeLessThan(0.01);
});
