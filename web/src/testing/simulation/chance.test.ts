import { expect, test } from 'vitest';
import { playByChance } from './cases.ts';

/** `npm test -- --long`: `SHOAL_SIMULATED_EVENTS=5000000 npx vitest run --project swarm web/src/testing/simulation/chance.test.ts`. */
const EVENTS = Number(process.env.SHOAL_SIMULATED_EVENTS ?? (process.env.SHOAL_LONG === '1' ? 1_000_000 : 60_000));
/** The first seed; a failure says which one it was. */
const SEED = Number(process.env.SHOAL_SIMULATED_SEED ?? 1);

test('whatever plans and whatever goes wrong, one after the other, no bit is another one, and the run ends', {
  timeout: 7_200_000,
}, async () => {
  let events = 0;
  for (let seed = SEED; events < EVENTS; seed++) {
    const ending = await playByChance(seed);
    expect(ending.problems, `again: SHOAL_SIMULATED_SEED=${seed} SHOAL_SIMULATED_EVENTS=1`).toEqual([]);
    events += ending.events;
  }
});
