import { expect, it } from 'vitest';
import { wishesOf } from './servedRun.ts';

it('plans by what donors measured, unless a schedule or the number of stages says that every donor has a part', () => {
  expect(wishesOf({})).toEqual({ auto: true });
  expect(wishesOf({ schedule: 'auto' })).toEqual({ auto: true });
  expect(wishesOf({ schedule: '1f1b' })).toEqual({ schedule: '1f1b' });
  expect(wishesOf({ schedule: 'chimera', pairs: 2 })).toEqual({ schedule: 'chimera', pairs: 2 });
  expect(wishesOf({ stages: 3 })).toEqual({ schedule: 'gpipe', stages: 3 });
  expect(wishesOf({ schedule: '1f1b', stages: 2 })).toEqual({ schedule: '1f1b', stages: 2 });
});
