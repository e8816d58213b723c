import { expect, test } from 'vitest';
import { MOST_STATE_KINDS, savedKinds, stateKinds } from './stateKinds.ts';

const sparse = { top: 64, chunk: 4096, feedback: 0.95 };

test('[IS20] a run without islands has values and two moments, and saves them', () => {
  expect(stateKinds(undefined)).toEqual(['value', 'm', 'v']);
  expect(savedKinds(undefined)).toEqual(['value', 'm', 'v']);
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

const others = (count: number) => Array.from({ length: count - 1 }, (_, place) => `value@${place + 1}`);

test('[IS20] what is not saved equals the values when a meeting has been held', () => {
  for (const exchange of ['f32', sparse] as const)
    for (const publish of ['f32', 'int8'] as const)
      for (const count of [1, 2, 63]) {
        const islands = { count, exchange, publish };
        const kinds = stateKinds(islands);
        const like = kinds.filter((kind) => !savedKinds(islands).includes(kind));
        expect(savedKinds(islands).every((kind) => kinds.includes(kind))).toBe(true);
        expect(like).toEqual([...others(count), publish === 'f32' ? 'shared' : 'published']);
        expect(kinds.length).toBeLessThanOrEqual(MOST_STATE_KINDS);
      }
});
