import { expect, test } from 'vitest';
import { kindsLikeValue, MOST_STATE_KINDS, savedKinds, stateKinds } from './stateKinds.ts';

const sparse = { top: 64, chunk: 4096, feedback: 0.95 };

test('[IS20] a run without islands has values and two moments, and saves them', () => {
  expect(stateKinds(undefined)).toEqual(['value', 'm', 'v']);
  expect(savedKinds(undefined)).toEqual(['value', 'm', 'v']);
  expect(kindsLikeValue(undefined)).toEqual([]);
});

test('[IS20] two islands that exchange everything: both of them, and what they share', () => {
  const islands = { count: 2, exchange: 'f32', publish: 'f32' } as const;
  expect(stateKinds(islands).join(' ')).toBe('value m v value@1 m@1 v@1 shared velocity');
  expect(savedKinds(islands).join(' ')).toBe('value m v m@1 v@1 velocity');
});

test('[IS20] three islands with left-overs and a published copy: the weights, which are shared, come first in a checkpoint', () => {
  const islands = { count: 3, exchange: sparse, publish: 'int8' } as const;
  expect(stateKinds(islands).join(' ')).toBe(
    'value m v value@1 m@1 v@1 value@2 m@2 v@2 leftOver leftOver@1 leftOver@2 shared velocity published',
  );
  expect(savedKinds(islands).join(' ')).toBe(
    'shared value m v m@1 v@1 m@2 v@2 leftOver leftOver@1 leftOver@2 velocity',
  );
});

test('[IS20] what is saved and what is like the values are all there is, once each', () => {
  for (const exchange of ['f32', sparse] as const)
    for (const publish of ['f32', 'int8'] as const)
      for (const count of [1, 2, 63]) {
        const islands = { count, exchange, publish };
        const kinds = stateKinds(islands);
        expect([...savedKinds(islands), ...kindsLikeValue(islands)].toSorted()).toEqual([...kinds].toSorted());
        expect(kinds.length).toBeLessThanOrEqual(MOST_STATE_KINDS);
      }
});
