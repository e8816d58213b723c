/** Every state of the pages of runs with islands: many groups, turns, meetings beside the steps, who is lost, who owns something. */
import type { Page } from 'playwright';
import { test } from 'vitest';
import { type Donor, type Operator, openDonor, openOperator } from '../browser.ts';
import { go } from '../dashboardControls.ts';
import { copyOfRun, type Json, type ProductServer, startServer, withSteps } from '../product.ts';
import { asDesktop, picture } from './picture.ts';

const ROUND = { count: 'auto', roundSeconds: 6 };

/** A long run, with its dashboard. */
async function begin(islands: Json, schedule?: 'gpipe'): Promise<{ server: ProductServer; operator: Operator }> {
  const change = (run: Json): Json => {
    const long = withSteps(4_000)(run);
    return { ...long, train: { ...(long.train as Json), islands }, checkpoint: { everySteps: 60 } };
  };
  const server = await startServer(copyOfRun('islands-sparse', change), schedule ? { schedule } : {});
  const operator = await openOperator(server);
  await asDesktop(operator.page);
  return { server, operator };
}

async function openAll({ page }: Donor): Promise<Page> {
  await page.evaluate(() => {
    for (const each of document.querySelectorAll('details')) each.open = true;
  });
  return page;
}

async function swarmOf({ page }: Operator, name: string): Promise<void> {
  await go(page, 'Swarm');
  await page.locator('.spans').waitFor();
  await picture(page, name);
}

test('three islands, one lost', async () => {
  const { server, operator } = await begin(ROUND);
  const { page } = operator;
  const [first, second, third] = [
    await openDonor(server.url),
    await openDonor(server.url),
    await openDonor(server.url),
  ];
  await operator.until(({ groups }) => groups?.length === 3);
  await operator.untilFurther(60);
  await picture(page, 'islands-01-run');
  await swarmOf(operator, 'islands-02-swarm');
  await go(page, 'Peers');
  await picture(page, 'islands-03-peers');
  await picture(await openAll(first), 'islands-04-donor');
  await second.press('Pause');
  await second.until('paused');
  await picture(second.page, 'islands-05-donor-paused');
  await swarmOf(operator, 'islands-06-swarm-of-two');
  await second.press('Resume');
  await second.until('computing');
  await third.kill();
  await operator.until(({ groups }) => groups?.length === 2);
  await go(page, 'Run');
  await picture(page, 'islands-07-run-one-lost');
  await go(page, 'Settings');
  await picture(page, 'islands-08-history');
  await second.page.reload();
  await second.until('computing');
  await picture(second.page, 'islands-09-donor-after-a-reload');
  await server.kill();
  await first.until('reconnecting');
  await picture(first.page, 'islands-10-donor-no-server');
  await picture(page, 'islands-11-dashboard-no-server');
});

test('four islands by turns of two donors', async () => {
  const { server, operator } = await begin({ count: 4, innerSteps: 6 }, 'gpipe');
  const first = await openDonor(server.url);
  await openDonor(server.url);
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 2);
  await operator.untilFurther(24);
  await picture(operator.page, 'islands-20-turns-run');
  await swarmOf(operator, 'islands-21-turns-swarm');
  await picture(await openAll(first), 'islands-22-turns-donor');
});

test('meetings beside the steps', async () => {
  const { server, operator } = await begin({ ...ROUND, overlap: true });
  const first = await openDonor(server.url);
  await openDonor(server.url);
  await operator.until(({ groups }) => groups?.length === 2);
  await operator.untilFurther(48);
  await picture(operator.page, 'islands-30-overlap-run');
  await swarmOf(operator, 'islands-31-overlap-swarm');
  await picture(await openAll(first), 'islands-32-overlap-donor');
});

/** A meeting that gives something to whoever is spoken to: many donors with slow lines would be needed for one. */
const meeting = (peer: unknown): Json => ({
  ...{ type: 'meet', epoch: 0, round: 3, attempt: 1, steps: [4], groups: [{ epoch: 1, islands: [0], state: [] }] },
  owners: { ranges: [{ block: 'embedding', range: [0, 16_000], have: [peer], keep: [peer] }] },
});

test('a donor that computes nothing, and owns a part of what islands share', async () => {
  const { server, operator } = await begin({ count: 2, innerSteps: 6 });
  await openDonor(server.url);
  await operator.untilFurther(12);
  let tellOwner = (): void => undefined;
  const owner = await openDonor(server.url, {
    prepare: (page) =>
      void page.routeWebSocket(/api\/donor/, (socket) => {
        const toServer = socket.connectToServer();
        toServer.onMessage((message) => {
          const said = typeof message === 'string' ? (JSON.parse(message) as Json) : {};
          if (said.type === 'welcome') tellOwner = () => socket.send(JSON.stringify(meeting(said.peer)));
          socket.send(message);
        });
      }),
  });
  await owner.until('spare');
  tellOwner();
  await owner.page.getByText(/Meanwhile this tab adds up what others learn/).waitFor();
  await picture(owner.page, 'islands-40-owner');
  await go(operator.page, 'Peers');
  await picture(operator.page, 'islands-41-peers-with-a-spare');
});
