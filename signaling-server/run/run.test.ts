import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createServer, type Server, type ServerOptions } from '../server.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { exportRun } from '../store/exportRun.ts';
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
    expect(lines[0]).toMatchObject({ tokens: 32, donors: 1, stages: 1, microBatches: 4, bytesDirect: 100 });
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

  it('neither goes on from a damaged checkpoint nor exports it', async () => {
    const data = await servers.data();
    const first = await serve();
    await (await ScriptedDonor.joined(first.url)).hears('standby');
    await first.close();
    const newest = data.store.newestCheckpoint(first.run.name);
    const [shard] = parseManifest(newest?.manifest ?? '').shards;
    writeFileSync(data.blobs.path(shard?.hash ?? ''), 'other bytes');
    const reason = expect.stringMatching(/the checkpoint after step \d+ cannot be used: .* is damaged/);
    const runName = first.run.name;
    expect(await createServer({ data, runName, port: 0, log: () => {} })).toEqual({ ok: false, reason });
    expect(await exportRun(data, runName, join(servers.folder, 'export'))).toEqual({ ok: false, reason });
    expect(existsSync(join(servers.folder, 'export'))).toBe(false);
  });
});
