import { describe, test } from 'vitest';
import { fakeNetwork } from '../testing/fakeLink.ts';
import { LINK_CONTRACT } from '../testing/linkContract.ts';

// The same cases run on simple-peer in a browser: e2e/link.spec.ts.
describe('Link, in memory', () => {
  for (const { title, run } of LINK_CONTRACT) test(title, () => run(fakeNetwork().openLink));
});
