import { expect, test } from 'vitest';
import { arrayOf } from '../base.ts';
import { loadedKinds, MOST_STATE_KINDS, savedAs, savedKinds, stateKinds } from './stateKinds.ts';

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

const others = (count: number) => arrayOf(count - 1, (place) => `value@${place + 1}`);

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

test('[IS41] a group has its own islands by turns; a checkpoint has them by their numbers, once', () => {
  const islands = { count: 4, exchange: sparse, publish: 'int8' } as const;
  expect(stateKinds(islands, [1, 3]).join(' ')).toBe(
    'value m v value@1 m@1 v@1 leftOver leftOver@1 shared velocity published',
  );
  expect(savedKinds(islands, [1, 3]).join(' ')).toBe('m@1 v@1 m@3 v@3 leftOver@1 leftOver@3');
  expect(loadedKinds(islands, [1, 3]).join(' ')).toBe('value m@1 v@1 m@3 v@3 leftOver@1 leftOver@3 shared velocity');
  expect(savedKinds(islands, [0, 2]).join(' ')).toBe('shared value m v m@2 v@2 leftOver leftOver@2 velocity');
  expect(['value@1', 'm@1', 'leftOver', 'published'].map((kind) => savedAs(kind as 'm', islands, [1, 3]))).toEqual([
    ...['value', 'm@3', 'leftOver@1', 'value'],
  ]);
});

test('[IS41] what the groups save is together what a checkpoint has, each once, and any other groups can load it', () => {
  for (const exchange of ['f32', sparse] as const)
    for (const publish of ['f32', 'int8'] as const) {
      const islands = { count: 5, exchange, publish };
      const all = savedKinds(islands).toSorted();
      for (const groups of [
        [[0, 1, 2, 3, 4]],
        [
          [0, 2],
          [1, 3, 4],
        ],
        [[0], [1], [2], [3], [4]],
      ]) {
        expect(groups.flatMap((own) => savedKinds(islands, own)).toSorted()).toEqual(all);
        for (const own of groups) expect(all).toEqual(expect.arrayContaining([...loadedKinds(islands, own)]));
      }
    }
});
