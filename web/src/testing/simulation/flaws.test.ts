import { describe, expect, test } from 'vitest';
import { allCases, parseCase, play, playUndisturbed } from './cases.ts';
import { differingSlices, oldFramesAgain, PLANTED_BUGS, SUMMED_IN_ORDER_OF_ARRIVAL } from './flaws.ts';

const SEED = 1;
/** Where the case that found a bug once does not any more, because something else takes another time, others are tried. */
const MOST_TRIED = 150;

describe('planted bugs', { timeout: 600_000 }, () => {
  test.each(PLANTED_BUGS)('%s: it is found', async (_what, plant, text) => {
    if (text === null) return expect((await playUndisturbed(SEED, { flaw: plant() })).problems).not.toEqual([]);
    for (const one of [parseCase(text), ...(await allCases()).slice(0, MOST_TRIED)])
      if ((await play(one, { flaw: plant() })).problems.length > 0) return;
    expect.unreachable('no simulation finds it');
  });

  test.each([
    ['digests are compared, a holder whose slices differ', differingSlices(true)],
    ['an inbox looks, old frames that come again', oldFramesAgain(true)],
  ])('where %s: no step is given up by it', async (_what, plant) => {
    expect(await playUndisturbed(SEED, { flaw: plant() })).toMatchObject({ problems: [], rollBacks: [] });
  });

  test('the same plan gives the same bits over any network, unless gradients are summed in order of arrival', async () => {
    const over = async (networkSeed: number, flaw = {}) =>
      (await playUndisturbed(SEED, { isOrdered: true, networkSeed, flaw })).fingerprint;
    const right = await over(2);
    expect(await over(3)).toBe(right);
    expect(await over(3, SUMMED_IN_ORDER_OF_ARRIVAL())).not.toBe(right);
  });
});
