import { expect, it } from 'vitest';
import { ALICE, BOB, CAROL, openLinks, quiet, swarm } from '../testing/fakeSwarm.ts';

it('[CO70] links of a plan that may come open beside those in use, which stay, and are there when it begins', async () => {
  const { tab, links } = swarm(ALICE, BOB, CAROL);
  await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
  await Promise.all([
    tab(ALICE).mesh.openAhead([BOB, CAROL], 2),
    tab(BOB).mesh.openAhead([ALICE], 2),
    tab(CAROL).mesh.openAhead([ALICE], 2),
  ]);
  expect(openLinks(links)).toHaveLength(4);
  // A step that is done again under the plan in force keeps them.
  await Promise.all([tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
  expect(openLinks(links)).toHaveLength(4);
  const made = links.length;
  await Promise.all([tab(ALICE).mesh.connect([BOB, CAROL], 3), tab(CAROL).mesh.connect([ALICE], 3)]);
  expect(links).toHaveLength(made);
  // The next plan does without carol again.
  await tab(ALICE).mesh.connect([BOB], 4);
  await quiet();
  expect(openLinks(links)).toHaveLength(2);
  expect(tab(ALICE).lost).toEqual([]);
});

it('[CO70] the wait for such links ends when others take their place, or the mesh closes', async () => {
  const { tab, server } = swarm(ALICE, BOB, CAROL);
  server.swallow = true;
  const first = tab(ALICE).mesh.openAhead([BOB], 1);
  const second = tab(ALICE).mesh.openAhead([CAROL], 1);
  await first;
  tab(ALICE).mesh.close();
  await second;
});
