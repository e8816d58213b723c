/** The connection of one tab to a living server is cut, again and again, and nothing else of it: the swarm does not notice. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { seededRandom } from '../swarm/base.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { atTestEnd, copyOfRun, runSwarm, startServer, temporaryFolder, withSteps } from './product.ts';

const STEPS = 60;
const CUTS = 3;
const CUTS_EVERY_MS = 4_000;

/** A line to the server that can be cut: its address, and what cuts all that goes by it. */
async function cuttable(port: number): Promise<{ readonly url: string; cut(): number }> {
  const open = new Set<Socket>();
  const line = createServer((donor) => {
    const server = connect(port, 'localhost');
    for (const [end, other] of [
      [donor, server],
      [server, donor],
    ] as const) {
      open.add(end);
      end.pipe(other);
      end.on('error', () => {});
      end.on('close', () => {
        open.delete(end);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => line.listen(0, 'localhost', resolve));
  const cut = (): number => {
    const { size } = open;
    for (const socket of open) socket.resetAndDestroy();
    return size;
  };
  atTestEnd(() => {
    line.close();
    cut();
  });
  return { url: `http://localhost:${(line.address() as AddressInfo).port}`, cut };
}

test('[RE80] a tab whose connection to the server is cut keeps its place, its links and its step', async () => {
  const random = seededRandom(1);
  const runFile = copyOfRun('gpt2-long', (run) => ({ ...withSteps(STEPS)(run), checkpoint: { everySteps: STEPS } }));
  const dataDirectory = temporaryFolder();
  const server = await startServer(runFile, { dataDirectory, schedule: 'gpipe' });
  const operator = await openOperator(server);
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  await openDonor(server.url);
  const { url, cut } = await cuttable(server.port);
  await openDonor(url);
  await operator.press('Resume');
  const before = await operator.until(({ committedSteps, donors }) => committedSteps > 0 && donors.length === 2);

  for (let time = 0; time < CUTS; time++) {
    await sleep(CUTS_EVERY_MS * random());
    expect(cut()).toBeGreaterThan(0);
    await operator.untilFurther(2);
  }
  const after = await operator.until(({ phase }) => phase === 'finished');
  const peersOf = ({ donors }: typeof after) => donors.map(({ peer }) => peer);
  expect([after.epoch, after.generation, peersOf(after)]).toEqual([before.epoch, before.generation, peersOf(before)]);
  await server.stop();
  const { metrics } = await runSwarm(runFile, '--donors', '1', '--data-dir', dataDirectory);
  expect(curveFaults('gpt2-long', STEPS, metrics)).toEqual([]);
});
