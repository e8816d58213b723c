/**
 * The dashboard under a crowd: what the server says of one donor, the page hears of many. What is left out of long lists
 * until somebody asks for it is looked at without so many donors.
 */
import type { Page } from 'playwright';
import { expect } from 'vitest';
import { arrayOf, peerId } from '../swarm/base.ts';
import { decodeWatchMessage, type WatchedEvent, type WatchMessage } from '../swarm/messages/watch.ts';
import { go } from './dashboardControls.ts';

const DONORS = 130;
const EVENTS = 150;

const PEERS = arrayOf(DONORS, (at) => peerId(`${String(at).padStart(3, '0')}crowd`));
const EVENTS_BEFORE: readonly WatchedEvent[] = PEERS.concat(PEERS)
  .slice(0, EVENTS)
  .map((peer, at) => ({
    id: at + 1,
    atMs: at * 1_000,
    step: 0,
    kind: 'joined',
    peer,
    adapter: { vendor: '', architecture: '', description: 'x' },
  }));

function crowded({ snapshot, events, ...rest }: WatchMessage, isFirst: boolean): WatchMessage {
  const [donor] = snapshot.donors;
  const donors = donor ? PEERS.map((peer) => ({ ...donor, peer })) : [];
  const links = PEERS.slice(1).map((peer, at) => ({
    ...{ from: PEERS[at] ?? peer, peer, route: 'direct' as const, roundTripMs: 1, bytesPerSecond: 1e7 },
  }));
  const own = events.map((event) => ({ ...event, id: event.id + EVENTS }));
  return { ...rest, snapshot: { ...snapshot, donors, links }, events: isFirst ? [...EVENTS_BEFORE, ...own] : own };
}

/** Of the step that is asked for: everyone works in turn. */
const timelineOf = (step: number) => ({
  ...{ step, epoch: 0, bubble: 0.5, predicted: [], plan: null },
  measured: PEERS.map((peer, at) => [peer, `0F${at}`, at, at + 1]),
});

async function openCrowd(page: Page, url: string): Promise<void> {
  let isFirst = true;
  await page.routeWebSocket(/\/api\/watch/, (socket) => {
    socket.connectToServer().onMessage((text) => {
      const decoded = decodeWatchMessage(String(text));
      if (!decoded.ok) throw new Error(decoded.reason);
      socket.send(JSON.stringify(crowded(decoded.value, isFirst)));
      isFirst = false;
    });
  });
  await page.route(/\/api\/operator\/timeline/, (route) =>
    route.fulfill({ json: timelineOf(Number(new URL(route.request().url()).searchParams.get('step'))) }),
  );
  await page.goto(`${url}/operator`);
}

/** Long lists begin short, and are whole when that is asked for. */
export async function walkCrowd(page: Page, url: string): Promise<void> {
  await openCrowd(page, url);
  const press = (name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  const rows = (table: string): Promise<number> =>
    page.getByRole('region', { name: table, exact: true }).locator('tbody tr').count();
  await go(page, 'Peers');
  await expect.poll(() => rows('Donors')).toBe(100);
  await press(`All ${DONORS} donors`);
  await expect.poll(() => rows('Donors')).toBe(DONORS);
  await go(page, 'Swarm');
  await expect.poll(() => rows('Links')).toBe(40);
  await press(`All ${DONORS - 1} links`);
  await expect.poll(() => rows('Links')).toBe(DONORS - 1);
  await press('Fewer links');
  await expect.poll(() => rows('Links')).toBe(40);
  await press(`All ${DONORS} donors`);
  await expect.poll(() => page.locator('svg.measured').count()).toBe(DONORS);
  await press('Fewer donors');
  await expect.poll(() => page.locator('svg.measured').count()).toBe(24);
  await go(page, 'Settings');
  await expect.poll(() => rows('What happened')).toBe(100);
  await press('Show more');
  await expect.poll(() => rows('What happened')).toBeGreaterThanOrEqual(EVENTS);
  await page.close();
}
