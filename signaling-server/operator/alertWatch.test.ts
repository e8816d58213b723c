/** Alerts that reach an address while nobody looks, through a real server and a real address. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ActiveRun } from '../run/run.ts';
import { errorOf, OperatedServer } from '../testing/operatedServer.ts';
import { AlertWatch } from './alertWatch.ts';

let operated: OperatedServer;
const taken: { kind: string; state: string; text: string; content: string }[] = [];
let status = 200;
const address = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    taken.push(JSON.parse(Buffer.concat(parts).toString()));
    response.writeHead(status, { location: '/elsewhere' }).end();
  });
});
const url = (): string => `http://localhost:${(address.address() as AddressInfo).port}/hook`;

beforeEach(async () => {
  operated = new OperatedServer();
  taken.length = 0;
  status = 200;
  await new Promise<void>((resolve) => address.listen(0, 'localhost', resolve));
});
afterEach(async () => {
  await operated.close();
  address.closeAllConnections();
  await new Promise((resolve) => address.close(resolve));
});

/** Looks at a run without donors when it is told to; `disk.free` in bytes. */
async function watched() {
  const { run } = await operated.serve(null);
  return { ...watchOf(run), run };
}

function watchOf(run: ActiveRun) {
  const disk: { free: number | null } = { free: null };
  const warnings: string[] = [];
  const watch = new AlertWatch(
    run,
    operated.data.store,
    () => disk.free,
    (_level, text) => void warnings.push(text),
  );
  return { watch, disk, warnings };
}

it('each alert is told once when it begins and once when it is over', async () => {
  const { watch, disk, warnings } = await watched();
  try {
    await watch.look();
    expect(taken).toEqual([]); // nobody wants it
    operated.data.store.saveSetting('webhook', url());
    await watch.look();
    await watch.look();
    expect(taken.map(({ kind, state }) => [kind, state])).toEqual([['donors', 'begins']]);
    expect(taken[0]?.text).toBe('Shoal, tiny: Too few donors: 0 training, and you want at least 1.');
    expect(taken[0]?.content).toBe(taken[0]?.text);
    disk.free = 1e9;
    await watch.look();
    disk.free = null;
    await watch.look();
    expect(taken.slice(1).map(({ kind, state }) => [kind, state])).toEqual([
      ['disk', 'begins'],
      ['disk', 'over'],
    ]);
    status = 302;
    disk.free = 1e9;
    await watch.look();
    // It came, and was not followed.
    expect(taken).toHaveLength(4);
    expect(warnings).toEqual([
      'an alert was not told: the address redirects elsewhere (302), where alerts are not sent',
    ]);
  } finally {
    watch.close();
  }
});

it('what could not be told is told at a later look, and an end never before its beginning', async () => {
  const { watch, disk, warnings } = await watched();
  const states = (): string[] => taken.splice(0).map(({ kind, state }) => `${kind} ${state}`);
  try {
    operated.data.store.saveSetting('webhook', url());
    status = 500;
    await watch.look();
    await watch.look();
    expect(states()).toEqual(['donors begins', 'donors begins']);
    expect(warnings).toEqual(['an alert was not told: the address answered with status 500']);
    status = 200;
    disk.free = 1e9;
    const first = watch.look();
    disk.free = null;
    // While one look tells, another would find that the disk's alert is over.
    await Promise.all([first, watch.look()]);
    expect(states()).toEqual(['donors begins', 'disk begins']);
    status = 500;
    await watch.look();
    status = 200;
    await watch.look();
    await watch.look();
    expect(states()).toEqual(['disk over', 'disk over']);
    expect(warnings).toHaveLength(2);
  } finally {
    watch.close();
  }
});

it('who serves the run next tells the end once the run has moved, and no beginning again', async () => {
  const { watch, disk, run } = await watched();
  operated.data.store.saveSetting('webhook', url());
  disk.free = 1e9;
  const { saveSetting } = operated.data.store;
  operated.data.store.saveSetting = () => {
    throw new Error('database or disk is full');
  };
  await watch.look();
  operated.data.store.saveSetting = saveSetting;
  await watch.look();
  watch.close();
  expect(taken.splice(0).map(({ state }) => state)).toEqual(['begins', 'begins']);
  let steps = run.committedSteps;
  const moving = new Proxy(run, {
    get: (target, key) => {
      const value = Reflect.get(target, key, target);
      if (key === 'committedSteps') return steps;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const next = watchOf(moving);
  try {
    await next.watch.look();
    expect(taken).toEqual([]);
    steps += 1;
    await next.watch.look();
    expect(taken.map(({ kind, state }) => [kind, state])).toEqual([['disk', 'over']]);
  } finally {
    next.watch.close();
  }
  const last = watchOf(moving);
  steps += 1;
  await last.watch.look();
  last.watch.close();
  expect(taken).toHaveLength(1);
});

it('an operator keeps the address and tries it; what is none is refused', async () => {
  await operated.serve(null);
  const { get, post } = await operated.logIn();
  expect(await errorOf(await post('/api/operator/webhook/try', {}))).toEqual([
    409,
    'no address is kept: save one first',
  ]);
  for (const wrong of ['file:///etc/passwd', 'javascript:alert(1)', 'here'])
    expect((await post('/api/operator/webhook', { url: wrong })).status).toBe(400);
  expect((await post('/api/operator/webhook', { url: url() })).status).toBe(200);
  expect(await (await get('/api/operator/webhook')).json()).toEqual({ url: url() });
  expect((await post('/api/operator/webhook/try', {})).status).toBe(200);
  expect(taken).toMatchObject([{ kind: 'trial', state: 'trial' }]);
  status = 500;
  expect(await errorOf(await post('/api/operator/webhook/try', {}))).toEqual([
    409,
    'the address answered with status 500',
  ]);
  // The audit says that it was done, and not where to: the address is a secret of its own.
  const { events } = await operated.shown();
  expect(JSON.stringify(events)).not.toContain('/hook');
});

it('an address with a name and a password is refused, and what is wrong with one is said without it', async () => {
  await operated.serve(null);
  const { post } = await operated.logIn();
  expect(await errorOf(await post('/api/operator/webhook', { url: 'http://fish:secret@localhost:9/hook' }))).toEqual([
    400,
    'the address may have no user name and no password before its host',
  ]);
  expect(await errorOf(await post('/api/operator/webhook', { url: 'file:///etc/passwd' }))).toEqual([
    400,
    'the address must begin with https:// or http://',
  ]);
  const tried = async (kept: string) => {
    operated.data.store.saveSetting('webhook', kept);
    return errorOf(await post('/api/operator/webhook/try', {}));
  };
  // One that was kept before it was refused.
  expect(await tried('http://fish:secret@localhost:9/hook')).toEqual([409, 'the address cannot be called']);
  const closed = url();
  address.closeAllConnections();
  await new Promise((resolve) => address.close(resolve));
  expect(await tried(closed)).toEqual([409, 'the address refused the connection (ECONNREFUSED)']);
});

it('a note is kept with its run, for whoever sees the list', async () => {
  await operated.serve(null);
  const { get, post } = await operated.logIn();
  expect((await post('/api/operator/note', { run: 'tiny', note: 'try a lower rate' })).status).toBe(200);
  expect(await (await get('/api/operator/runs')).json()).toMatchObject({ runs: [{ note: 'try a lower rate' }] });
  expect((await post('/api/operator/note', { run: 'nothing', note: '' })).status).toBe(409);
  expect((await post('/api/operator/note', { run: 'tiny', note: 'bell \u0007' })).status).toBe(400);
});
