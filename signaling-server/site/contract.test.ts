/** One contract of the store and its blobs, over both engines: a data directory, and a site (in memory, and over NATS). */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PeerProfile } from '../../swarm/autoplan/peerProfile.ts';
import { invariant, peerId, type Result } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { type DataDirectory, openDataDirectory } from '../store/dataDirectory.ts';
import type { Store } from '../store/store.ts';
import { VirtualLink, VirtualNats } from '../testing/virtualNats.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from './natsServer.ts';
import { openSite, openSiteData, type SiteData } from './site.ts';

const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const manifest = (step: number) => JSON.stringify({ step, shards: [] });
const [P, Q] = [peerId('p'), peerId('q')];
const PROFILE: PeerProfile = {
  layers: [{ samples: 1, forwardSeconds: 0.1, backwardSeconds: 0.2 }],
  memoryBytes: 1e9,
  ratios: [],
};

const commit = (step: number): CommitRecord => ({
  ...{ step, loss: 5 - step / 7, gradientNorm: 1.5, learningRate: 1e-3, tokens: 256, seconds: 0.25 },
  ...{ donors: 2, stages: 2, microBatches: 8, plan: 1 + Math.floor(step / 2), bytesDirect: 1_000, bytesRelayed: 0 },
});

/** Every method that writes, what it answers. */
function writeAll(store: Store): unknown[] {
  store.addRun('a', 'hash', DOCUMENT, manifest(0), 1);
  store.addRun('b', 'other', DOCUMENT, manifest(0), 2);
  store.setActive('a');
  store.setOperatorPaused('b', true);
  for (const epoch of [1, 2, 3, 4]) store.saveEpoch('a', epoch, 0, JSON.stringify({ epoch }), 'a reason');
  for (const step of [0, 1, 2, 3, 4, 5])
    store.commitStep(
      'a',
      commit(step),
      [P, Q].slice(step % 2).map((peer) => ({ peer, tokens: 64.5 + step })),
      `{"s":${step}}`,
    );
  store.addMeeting('a', 2, 11, 7);
  for (const step of [0, 1, 2, 3])
    store.commitStep(
      'b',
      { ...commit(step), number: 10 * step, island: step % 2, round: 0, innerStep: Math.floor(step / 2) },
      [{ peer: P, tokens: 3 + step }],
    );
  store.voidCredit('b', P);
  store.endIsland('b', 1, 1);
  for (const steps of [0, 2, 4, 6]) store.saveEvaluation('a', steps, 5 - steps / 9);
  store.saveRightAnswers('a', 2, { share: 0.5, fromStep: 2, toStep: 3 });
  store.saveRightAnswers('a', 4, null);
  for (const steps of [2, 4, 5, 6]) store.saveCheckpoint('a', steps, manifest(steps));
  store.keepCheckpoint('a', 2, true);
  store.keepCheckpoint('a', 6, true);
  store.deleteCheckpoint('a', 4);
  store.deleteCheckpoint('a', 77);
  // Infinite, and more than a message.
  store.saveTraces('a', [
    { step: 2, epoch: 2, bubble: Infinity, spans: '[]' },
    { step: 5, epoch: 3, bubble: 0.25, spans: 'ü'.repeat(40_000) },
  ]);
  store.rollBack('a', 5);
  // The same step again, and back again.
  store.saveCheckpoint('a', 6, manifest(60));
  store.keepCheckpoint('a', 6, true);
  store.rollBack('a', 5);
  store.deleteCheckpoint('a', 6, 1);
  // The oldest ones go.
  for (let event = 0; event < 150; event++)
    store.addEvent('a', event % 2 ? 'joined' : 'left', `${event}`, event, event);
  store.saveMember({ id: 'one', name: 'Ada', team: 'x' }, 1);
  store.saveMember({ id: 'two', name: 'Bob', team: '' }, 2);
  store.saveMember({ id: 'three', name: 'Cyd', team: '' }, 3);
  store.linkMember('a', P, 'one');
  store.linkMember('a', Q, 'two');
  store.linkMember('a', peerId('idle'), 'two');
  store.unlinkPeer('a', peerId('idle'));
  store.unlinkPeer('a', P);
  store.deleteMember('three');
  store.saveProfile('a', 'donor', PROFILE, 3);
  store.saveStay(60_000, { seconds: 12.5, hasEnded: true, isNew: false });
  store.saveSetting('alertLimits a', '{"x":1}');
  store.saveSetting('card a', '{"purpose":"p"}');
  store.saveQueue(['b', 'a']);
  store.saveBesideRuns(['b']);
  store.saveText({ name: 'sea', format: 'text', bytes: 5, hash: 'one', heldOutHash: 'two' });
  store.saveText({ name: 'air', format: 'chat', bytes: 6, hash: 'three', heldOutHash: 'four' });
  store.saveSetting('invite', 'open');
  store.saveSetting('webhook', 'https://example.org/hook');
  store.saveSetting('toldAlerts', '[]');
  store.saveSetting('note a', 'a note');
  store.saveSetting('sessions', '[]');
  store.block('address', 'why', 5);
  store.block('another', '', 6);
  store.unblock('another');
  store.saveSample('a', { committedSteps: 2, prompt: 'Call', text: 'me' });
  const secrets = [store.secret('key', () => 'made'), store.secret('key', () => 'made again')];
  store.forgetSecret('key');
  const visits = ['amber-herring', 'amber-herring', 'teal-cod'].map((words) => store.visits('a', words));
  return [...secrets, store.secret('key', () => 'a third'), ...visits];
}

/** What every method that reads answers. */
const readAll = (store: Store): Record<string, unknown> => ({
  run: [store.run('a'), store.run('b'), store.run('none')],
  runNames: store.runNames(),
  activeRun: store.activeRun(),
  applied: [store.applied('a', 3), store.applied('a', 9)],
  plansFrom: store.plansFrom('a', 0, 2),
  checkpoint: [
    store.checkpoint('a', 5),
    store.checkpoint('a', 4),
    store.checkpoint('a', 6, 0),
    store.checkpoint('a', 6, 1),
  ],
  formerCheckpoints: store.formerCheckpoints('a'),
  newestCheckpoint: store.newestCheckpoint('a'),
  manifests: store.manifests().toSorted(),
  committedSteps: [store.committedSteps('a'), store.committedSteps('b')],
  steps: [store.steps('a'), store.steps('a', 3), store.steps('b')],
  evaluations: [...store.evaluations('a')],
  rightAnswers: [
    [...store.rightAnswers('a')],
    store.newestRightAnswers('a'),
    store.isAsked('a', 4),
    store.isAsked('a', 5),
  ],
  newestEvaluations: [...store.newestEvaluations('a', 2)],
  ledger: [store.ledger('a'), store.ledger('b')],
  stepsOf: [store.stepsOf('a', peerId('p0')), store.stepsOf('a', peerId('nobody'))],
  events: store.events('a', 'joined', 40),
  newestEvent: store.newestEvent(),
  history: store.history('a', 100, 20),
  lastEventMs: [store.lastEventMs('a', 'left'), store.lastEventMs('a', 'none')],
  trace: [store.trace('a', 4), store.trace('a', 1)],
  traceRange: store.traceRange('a'),
  bubbles: [...store.bubbles('a', 0)],
  checkpoints: store.checkpoints('a'),
  stepsSpread: store.stepsSpread('a', 5, 3),
  epoch: store.epoch('a', 3),
  createdAtMs: store.createdAtMs('b'),
  ledgerFrom: store.ledgerFrom('a', 3),
  member: [store.member('one'), store.member('three')],
  memberNamed: [store.memberNamed('aDa'), store.memberNamed('nobody')],
  memberCredit: store.memberCredit('a'),
  profile: store.profile('a', 'donor'),
  stays: store.stays(),
  shares: store.shares('a', 0),
  alertLimits: store.setting('alertLimits a'),
  card: store.setting('card a'),
  queue: store.queue(),
  besideRuns: store.besideRuns(),
  texts: store.texts(),
  siteInvite: store.setting('invite'),
  webhook: store.setting('webhook'),
  toldAlerts: store.setting('toldAlerts'),
  note: store.note('a'),
  sessions: store.setting('sessions'),
  blocks: store.blocks(),
  isBlocked: [store.isBlocked('address'), store.isBlocked('another')],
  samples: store.samples('a'),
});

/** Not of one thing that a store has. */
const OTHERS = ['content', 'fill', 'version', 'whenKept', 'kept', 'onStall', 'copy', 'close'];

/** One place that can be opened, closed and opened again. */
interface Place {
  open(): Promise<DataDirectory>;
  close(): Promise<void>;
}

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-contract-'));
});
const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
  rmSync(folder, { recursive: true, force: true });
});

function directory(): Place {
  let data: DataDirectory | null = null;
  return {
    open: async () => {
      data = need(await openDataDirectory(join(folder, 'data'), false));
      return data;
    },
    close: async () => {
      data?.close();
      data = null;
    },
  };
}

function siteOf(open: () => Promise<SiteData>): Place {
  let site: SiteData | null = null;
  return {
    open: async () => {
      site = await open();
      need(await site.lead());
      return site.data;
    },
    close: async () => {
      await site?.close();
      site = null;
    },
  };
}

const inMemory = (nats: VirtualNats, work: string): Place => {
  const faults = { random: () => 0.5, delayMs: 0, loss: 0 };
  const { shared } = new VirtualLink(nats, faults, monotonicMs);
  return siteOf(async () => need(await openSiteData(shared, join(folder, work), () => {})));
};

const overNats = (nats: NatsServer, work: string): Place =>
  siteOf(async () =>
    need(await openSite({ urls: [nats.url], site: 'test', directory: join(folder, work), log: () => {} })),
  );

/** The first place of a kind, and another one that shares what it has, where the kind has such. */
const ENGINES: Record<string, () => Promise<readonly [Place, Place | null]>> = {
  'a data directory': async () => [directory(), null],
  'a site in memory': async () => {
    const nats = new VirtualNats();
    return [inMemory(nats, 'one'), inMemory(nats, 'two')];
  },
  ...(hasNatsServer()
    ? {
        'a site over NATS': async () => {
          const nats = need(await startNatsServer(join(folder, 'nats')));
          endings.push(() => nats.stop());
          return [overNats(nats, 'one'), overNats(nats, 'two')] as const;
        },
      }
    : {}),
};

async function expected(): Promise<Record<string, unknown>> {
  const place = directory();
  const { store } = await place.open();
  writeAll(store);
  const all = readAll(store);
  await place.close();
  rmSync(join(folder, 'data'), { recursive: true });
  return all;
}

it('the contract has every method of a store', async () => {
  const place = directory();
  const { store } = await place.open();
  const asked = new Set<string>();
  const watched = new Proxy(store, {
    get: (target, name) => {
      asked.add(String(name));
      return Reflect.get(target, name);
    },
  });
  writeAll(watched);
  readAll(watched);
  await place.close();
  expect([...asked, ...OTHERS].sort()).toEqual(Object.keys(store).sort());
});

describe.each(Object.keys(ENGINES))('%s', (engine) => {
  it('keeps what it is given, over being opened again, and shares it', async () => {
    const [one, other] = (await ENGINES[engine]?.()) ?? [directory(), null];
    const all = await expected();
    const data = await one.open();
    endings.push(() => one.close());
    const versions = [data.store.version()];
    expect(writeAll(data.store)).toEqual(['made', 'made', 'a third', 1, 2, 1]);
    versions.push(data.store.version());
    expect(new Set(versions).size).toBe(2);
    await data.store.kept();
    expect(readAll(data.store)).toEqual(all);
    const bytes = new Uint8Array(700_000).map((_, index) => (index * 7) % 253);
    const hash = await data.blobs.put(bytes);
    const streamed = await data.blobs.putStream(
      (async function* () {
        yield bytes.subarray(0, 1_000);
        yield bytes.subarray(1_000, 5_000);
      })(),
    );
    expect(await data.blobs.list()).toEqual([hash, streamed].sort());
    const letGo = data.blobs.hold([hash]);
    await data.blobs.remove(hash);
    expect(Buffer.compare(await data.blobs.readRange(hash, 10, 90), bytes.subarray(10, 90))).toBe(0);
    await letGo();
    expect(await data.blobs.has(hash)).toBe(false);
    expect(await data.blobs.list()).toEqual([streamed]);

    if (other !== null) {
      const second = await other.open();
      endings.push(() => other.close());
      expect(readAll(second.store)).toEqual(all);
      // What nothing names went when it began to lead.
      expect(await second.blobs.list()).toEqual([]);
      await other.close();
    }
    await one.close();
    if (other !== null) for (const name of readdirSync(join(folder, 'one'))) damage(join(folder, 'one', name));
    const again = await one.open();
    expect(readAll(again.store)).toEqual(all);
    again.store.saveSetting('note a', 'another note');
    expect(again.store.note('a')).toBe('another note');
  });
});

/** A file of a working folder, or one more where a folder is. */
function damage(path: string): void {
  if (path.endsWith('.sqlite')) writeFileSync(path, 'damaged');
}
