import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createServer, type Server, type ServerOptions } from '../server.ts';
import { parseManifest } from '../store/checkpointState.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { exportRun } from '../store/exportRun.ts';
import { rollBacksSince } from '../store/rollBacks.ts';
import { ScriptedDonor, scriptedEvaluation, scriptedLoss } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 6;
const RUN = { steps: STEPS, checkpointEverySteps: 2, evaluationEverySteps: 3 };

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers(RUN);
});
afterEach(() => servers.close());
const serve = (options: Partial<ServerOptions> = {}): Promise<Server> => servers.serve(options);

const metrics = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('a run', () => {
  it('is trained to its end by one donor, every step once in the metrics', async () => {
    const metricsPath = join(servers.folder, 'metrics.jsonl');
    const server = await serve({ metricsPath });
    const donor = await ScriptedDonor.joined(server.url);
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    const lines = metrics(metricsPath);
    expect(lines.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const line of lines) expect(line.loss).toBeCloseTo(scriptedLoss(line.step), 12);
    const evaluated = lines.filter((line) => 'evaluationLoss' in line);
    expect(evaluated.map(({ step }) => step)).toEqual([2, 5]);
    for (const line of evaluated) expect(line.evaluationLoss).toBeCloseTo(scriptedEvaluation(line.step + 1), 12);
    expect(lines[0]).toMatchObject({ tokens: 32, donors: 1, stages: 1, microBatches: 4, bytesDirect: 0 });
    expect(server.run.snapshot()).toMatchObject({ phase: 'finished', committedSteps: STEPS });
  });

  it('waits for every expected donor, then splits the model between them', async () => {
    const server = await serve({ expectedDonors: 2 });
    const first = await ScriptedDonor.joined(server.url);
    expect(server.run.snapshot().phase).toBe('waiting');
    const second = await ScriptedDonor.joined(server.url);
    const { plan } = await first.hears('prepare');
    expect(plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([
      [first.welcome.peer],
      [second.welcome.peer],
    ]);
    await second.hears('standby');
    expect(server.run.committedSteps).toBe(STEPS);
  });

  it('goes back to the newest checkpoint when a donor is lost, and still has every step once', async () => {
    const metricsPath = join(servers.folder, 'metrics.jsonl');
    const server = await serve({ expectedDonors: 2, metricsPath });
    const first = new ScriptedDonor(server.url);
    const second = await ScriptedDonor.joined(server.url);
    await second.hears('committed', ({ step }) => step === 2);
    second.vanish();
    await first.hears('standby');
    expect(metrics(metricsPath).map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(metrics(metricsPath).at(-1)).toMatchObject({ donors: 1, stages: 1 });
  });

  it('goes on from its store with another number of donors', async () => {
    const earlier = await serve({ steps: 3, expectedDonors: 2, metricsPath: join(servers.folder, 'a.jsonl') });
    const donors = [await ScriptedDonor.joined(earlier.url), await ScriptedDonor.joined(earlier.url)];
    await Promise.all(donors.map((donor) => donor.hears('standby')));
    await earlier.close();

    const metricsPath = join(servers.folder, 'b.jsonl');
    const later = await serve({ metricsPath });
    expect(metrics(metricsPath).map(({ step }) => step)).toEqual([0, 1, 2]);
    const donor = await ScriptedDonor.joined(later.url);
    expect(await donor.hears('prepare')).toMatchObject({ step: 3, source: { from: 'checkpoint', step: 3 } });
    await donor.hears('standby');
    expect(metrics(metricsPath).map(({ step, donors: count }) => [step, count])).toEqual([
      [0, 2],
      [1, 2],
      [2, 2],
      [3, 1],
      [4, 1],
      [5, 1],
    ]);
  });

  it('stops at a step boundary with everything saved', async () => {
    const data = await servers.data();
    const server = await serve();
    const donor = await ScriptedDonor.joined(server.url);
    await donor.hears('committed', ({ step }) => step === 0);
    await server.stop();
    const steps = data.store.committedSteps('tiny');
    expect(steps).toBeGreaterThan(0);
    expect(data.store.newestCheckpoint('tiny')?.committedSteps).toBe(steps);
    expect(data.store.run('tiny')?.operatorPaused).toBe(false);
  });

  it('can start again after a stop', async () => {
    const server = await serve();
    const donor = await ScriptedDonor.joined(server.url);
    await donor.hears('committed', ({ step }) => step === 1);
    server.run.command('stop');
    await server.run.until(({ phase }) => phase === 'stopped');
    server.run.command('start');
    await donor.hears('standby', ({ state }) => state === 'finished');
    expect(server.run.committedSteps).toBe(STEPS);
  });

  it('has no part for who paused before or during a stop, until it resumes', async () => {
    const server = await serve();
    const donor = await ScriptedDonor.joined(server.url);
    await donor.hears('committed', ({ step }) => step === 1);
    server.run.command('stop');
    await server.run.until(({ phase }) => phase === 'stopped');
    donor.say({ type: 'pause' });
    await donor.hears('standby', ({ state }) => state === 'paused');
    server.run.command('start');
    await server.run.until((run) => run.snapshot().donors[0]?.state === 'paused');
    const { committedSteps } = server.run;
    donor.say({ type: 'resume' });
    await donor.hears('standby', ({ state }) => state === 'finished');
    expect(committedSteps).toBeLessThan(STEPS);
    expect(server.run.committedSteps).toBe(STEPS);
  });

  describe('a checkpoint that does not load is set aside, and the run goes on from the next older one', () => {
    const damages: readonly (readonly [string, (path: string) => void, RegExp])[] = [
      ['a flipped bit', (path) => flipBit(path), /^the checkpoint after step 6 cannot be used: .* is damaged/],
      [
        'a file cut off',
        (path) => truncateSync(path, 20),
        /^the checkpoint after step 6 cannot be used: .* is damaged/,
      ],
      ['a file that is gone', (path) => rmSync(path), /^the checkpoint after step 6 cannot be used: .* cannot be read/],
    ];
    for (const [what, damage, sentence] of damages)
      it(what, async () => {
        const data = await servers.data();
        const first = await serve();
        await (await ScriptedDonor.joined(first.url)).hears('standby', ({ state }) => state === 'finished');
        await first.close();
        damage(data.blobs.path(blobOf(data, STEPS)));
        const { name } = first.run;
        expect(await exportRun(data, name, join(servers.folder, 'export'))).toMatchObject({ ok: false });
        expect(existsSync(join(servers.folder, 'export'))).toBe(false);
        const second = await serve();
        expect(second.run.committedSteps).toBe(STEPS);
        const donor = await ScriptedDonor.joined(second.url);
        expect(await donor.hears('prepare')).toMatchObject({ source: { from: 'checkpoint', step: 4 } });
        await donor.hears('standby', ({ state }) => state === 'finished');
        const told = data.store
          .events(name, 'setAside', 0)
          .map((detail) => (JSON.parse(detail) as { reason: string }).reason);
        expect(told).toEqual([expect.stringMatching(sentence)]);
      });

    it('while the server runs, before anyone gets a byte of it', async () => {
      const data = await servers.data();
      const { run, url } = await serve();
      const donor = await ScriptedDonor.joined(url);
      await donor.hears('standby', ({ state }) => state === 'finished');
      flipBit(data.blobs.path(blobOf(data, 4)));
      run.sendBack(4);
      expect((await donor.fetch('/api/state/4/head?kind=value&from=0&to=16')).status).toBe(410);
      await donor.hears('prepare', ({ source }) => source.from === 'checkpoint' && source.step === 2);
      await run.until(({ phase }) => phase === 'finished');
      expect(run.committedSteps).toBe(STEPS);
      expect(donor.received.filter(({ type }) => type === 'refused')).toEqual([]);
      const rollBacks = rollBacksSince(data.store, 'tiny', 0).map(({ toStep, reason }) => [toStep, reason]);
      expect(rollBacks).toEqual([
        [4, 'the operator sent the run back to checkpoint 4'],
        [
          2,
          expect.stringMatching(
            /^the checkpoint after step 4 cannot be used: .* is damaged: .*: it goes on from checkpoint 2$/,
          ),
        ],
      ]);
      expect(data.store.events('tiny', 'setAside', 0)).toHaveLength(1);
    });

    it('where none is left while the server runs, the run stands and says so, and has lost no checkpoint', async () => {
      const data = await servers.data();
      const { run, url } = await serve();
      const donor = await ScriptedDonor.joined(url);
      await donor.hears('standby', ({ state }) => state === 'finished');
      for (const { committedSteps } of data.store.checkpoints('tiny'))
        rmSync(data.blobs.path(blobOf(data, committedSteps)), { force: true });
      run.sendBack(4);
      await run.until(({ phase }) => phase === 'waiting');
      expect(run.snapshot().sentence).toMatch(/^No checkpoint loads: the checkpoint after step 4 cannot be used: /);
      expect(data.store.checkpoints('tiny').map(({ committedSteps }) => committedSteps)).toEqual([0, 2, 4]);
    });

    it('where none is left that loads, the server says so and does not start', async () => {
      const data = await servers.data();
      const first = await serve();
      await (await ScriptedDonor.joined(first.url)).hears('standby', ({ state }) => state === 'finished');
      await first.close();
      const steps = data.store.checkpoints('tiny').map(({ committedSteps }) => committedSteps);
      expect(steps).toEqual([0, 2, 4, 6]);
      for (const step of steps) rmSync(data.blobs.path(blobOf(data, step)));
      const reason = expect.stringMatching(/^run tiny: the checkpoint after step 6 cannot be used: .* cannot be read/);
      expect(await createServer({ data, runName: 'tiny', port: 0, log: () => {} })).toEqual({ ok: false, reason });
    });
  });
});

const blobOf = (data: DataDirectory, step: number): string =>
  parseManifest(data.store.checkpoint('tiny', step) ?? '').shards.at(-1)?.hash ?? '';

function flipBit(path: string): void {
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(9) ^ 1, 9);
  writeFileSync(path, bytes);
}
