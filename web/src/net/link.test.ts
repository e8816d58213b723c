import { describe, expect, test } from 'vitest';
import { SILENCE } from '../../../swarm/coordinator/deadlines.ts';
import { fakeNetwork } from '../testing/fakeLink.ts';
import { LINK_CONTRACT } from '../testing/linkContract.ts';
import { PONG_LIMIT_MS } from './link.ts';

// The same cases run on simple-peer in a browser: e2e/link.spec.ts.
describe('Link, in memory', () => {
  for (const { title, run } of LINK_CONTRACT) test(title, () => run(fakeNetwork().openLink));
});

test('[RE40] the server knows of a silent donor before its neighbours give up their links to it', () => {
  expect(PONG_LIMIT_MS).toBeGreaterThan(2 * (SILENCE.donorMs + 2 * SILENCE.lookMs));
});
