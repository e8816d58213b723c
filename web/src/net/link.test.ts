import { describe, test } from 'vitest';
import { fakeNetwork } from './fakeLink.ts';
import { LINK_CONTRACT } from './linkContract.ts';

// The same cases run on simple-peer in a browser: e2e/link.spec.ts.
describe('Link, in memory', () => {
  for (const { title, run } of LINK_CONTRACT) test(title, () => run(fakeNetwork().openLink));
});
