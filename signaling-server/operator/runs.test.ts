/** What an operator does to runs and donors, through a real server with donors that answer by a script. */
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { publicStatusSchema } from '../../swarm/messages/publicStatus.ts';
import { INITIAL_ALERT_LIMITS } from '../../swarm/messages/watch.ts';
import { dryRunSchema, INITIAL_DRAFT, type RunDraft, runListSchema } from '../../swarm/run/runDraft.ts';
import { parseDocument } from '../store/runDocument.ts';
import { errorOf, OPERATED_STEPS, OperatedServer } from '../testing/operatedServer.ts';
import { ScriptedDonor, scriptedLoss } from '../testing/scriptedDonor.ts';
import { filesOfTar } from '../texts/tar.ts';

let operated: OperatedServer;
beforeEach(() => {
  operated = new OperatedServer();
});
afterEach(() => operated.close());

const DRAFT: RunDraft = { ...INITIAL_DRAFT, name: 'second', source: 'tiny', sequenceLength: 8 };
const CLUSTER = JSON.stringify({
  peers: ['a', 'b'].map((id) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e10 })),
  links: { default: { latencySeconds: 0.0001, bytesPerSecond: 1e9 } },
});

async function finished(): Promise<ScriptedDonor> {
  const donor = new ScriptedDonor(operated.server.url);
  await donor.hears('standby', ({ state }) => state === 'finished');
  return donor;
}

describe('runs', () => {
  it('are listed with their checkpoints, created from a draft, and cloned from a checkpoint', async () => {
    await operated.serve(null);
    const { get, post } = await operated.logIn();
    await finished();
    const created = await post('/api/operator/runs', DRAFT);
    expect(await created.json()).toEqual({ ok: true, value: 'second' });
    await post('/api/operator/runs', { ...DRAFT, name: 'third', checkpoint: OPERATED_STEPS });
    const { runs, canActivate } = runListSchema.parse(await (await get('/api/operator/runs')).json());
    expect(canActivate).toBe(false);
    expect(runs.map(({ name, isActive, committedSteps, steps }) => [name, isActive, committedSteps, steps])).toEqual([
      ['tiny', true, OPERATED_STEPS, OPERATED_STEPS],
      ['second', false, 0, 300],
      ['third', false, 0, 300],
    ]);
    expect(runs[0]?.checkpoints.map(({ committedSteps }) => committedSteps)).toEqual([0, 20, 30, 40]);
    const { store } = operated.data;
    const hashes = (name: string) =>
      (JSON.parse(store.newestCheckpoint(name)?.manifest ?? '{}') as { shards: { hash: string; moments: boolean }[] })
        .shards;
    expect(hashes('third').map(({ hash }) => hash)).toEqual(hashes('tiny').map(({ hash }) => hash));
    expect(hashes('third').every(({ moments }) => !moments)).toBe(true);
  });

  it('are refused in a sentence: a name taken, by two at once too; a name that is markup; what no run file may be', async () => {
    await operated.serve(null);
    const first = await operated.logIn();
    const second = await operated.logIn();
    const both = await Promise.all([first, second].map(({ post }) => post('/api/operator/runs', DRAFT)));
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const refused = async (part: Partial<RunDraft>) =>
      errorOf(await first.post('/api/operator/runs', { ...DRAFT, ...part }));
    expect(await refused({ name: '<img src=x onerror=alert(1)>' })).toEqual([
      409,
      expect.stringMatching(/^the draft: name must be/),
    ]);
    expect(await refused({ name: 'x', source: 'nobody' })).toEqual([409, expect.stringContaining('no run "nobody"')]);
    expect(await refused({ name: 'x', sequenceLength: 4_000 })).toEqual([409, expect.stringContaining('positions')]);
    expect(await refused({ name: 'x', model: 'tiny', checkpoint: 0 })).toEqual([
      409,
      expect.stringContaining('same model'),
    ]);
    expect((await first.post('/api/operator/runs', { ...DRAFT, steps: -1 })).status).toBe(400);
    const { events } = await operated.shown();
    const audit = events.flatMap((event) => (event.kind === 'operator' ? event : []));
    expect(audit.filter(({ what }) => what === 'created run second from tiny')).toHaveLength(1);
    expect(audit.filter(({ what }) => what.includes('refused, there is a run "second" already'))).toHaveLength(1);
    expect(new Set(audit.map(({ session }) => session)).size).toBe(2);
  });

  it('are trained on a text that an operator brings along, its end held out', async () => {
    await operated.serve(null);
    const { get, post, postBytes } = await operated.logIn();
    const text = Buffer.from('The sea, the sea. '.repeat(500));
    const brought = await postBytes('/api/operator/texts?name=sea', text);
    expect([brought.status, await brought.json()]).toEqual([
      200,
      { ok: true, value: { name: 'sea', format: 'text', bytes: 8_820 } },
    ]);
    expect(await errorOf(await postBytes('/api/operator/texts?name=sea', text))).toEqual([
      409,
      'there is a text "sea" already: choose it in the list, or give the file another name',
    ]);
    expect((await postBytes('/api/operator/texts?name=small', text.subarray(0, 100))).status).toBe(409);
    expect((await postBytes('/api/operator/texts?name=../sea', text)).status).toBe(400);
    const picture = Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47]), text]);
    const wrong = [409, 'this file is not text: expected one in UTF-8'];
    expect(await errorOf(await postBytes('/api/operator/texts?name=photo', picture))).toEqual(wrong);
    expect(await errorOf(await postBytes('/api/operator/texts?name=zeros', Buffer.alloc(9_000)))).toEqual(wrong);
    const answer = await post('/api/operator/runs', { ...DRAFT, text: 'sea', model: 'tiny' });
    expect(await answer.json()).toEqual({ ok: true, value: 'second' });
    const { runs, texts } = runListSchema.parse(await (await get('/api/operator/runs')).json());
    const heldOut = 0.02 * 9_000;
    expect(texts).toEqual([{ name: 'sea', format: 'text', bytes: 9_000 - heldOut }]);
    expect(runs[1]?.dataTokens).toBe(9_000 - heldOut);
    const document = parseDocument(operated.data.store.run('second')?.document ?? '');
    expect(document.evaluation?.tokens).toBe(heldOut);
    const gone = await post('/api/operator/runs', { ...DRAFT, name: 'third', text: 'nowhere', model: 'tiny' });
    expect(await errorOf(gone)).toEqual([409, expect.stringContaining('there is no text "nowhere" here')]);
    const { events } = await operated.shown();
    expect(events).toContainEqual(expect.objectContaining({ what: 'created run second from tiny, text sea' }));
  });

  it('are planned before they are made, on a cluster in words, with a what-if beside it', async () => {
    await operated.serve(null);
    const { post } = await operated.logIn();
    const ask = (part: object) =>
      post('/api/operator/plan', { draft: { ...DRAFT, model: 'small' }, cluster: CLUSTER, whatIf: null, ...part });
    const plain = dryRunSchema.parse(await (await ask({})).json());
    expect(plain.totalSeconds).toBeCloseTo(300 * plain.stepSeconds, 6);
    expect(plain.peers.map(({ peer }) => peer).sort()).toEqual(['a', 'b']);
    const faster = dryRunSchema.parse(await (await ask({ whatIf: 'flopsPerSecond x4' })).json());
    expect(faster.before?.stepSeconds).toBeCloseTo(plain.stepSeconds, 6);
    expect(faster.stepSeconds).toBeLessThan(plain.stepSeconds);
    // This server gives everyone a part, however far away: so does the plan that it is asked for.
    const far = JSON.stringify({
      ...JSON.parse(CLUSTER),
      links: { default: { latencySeconds: 9, bytesPerSecond: 1e3 } },
    });
    expect(dryRunSchema.parse(await (await ask({ cluster: far })).json()).peers.length).toBe(2);
    expect(await errorOf(await ask({ cluster: null }))).toEqual([409, expect.stringContaining('no donor is here')]);
    expect(await errorOf(await ask({ cluster: '{' }))).toEqual([
      409,
      'the cluster file is not valid JSON: it ends in line 1 where a name in quotes or } belongs',
    ]);
    expect(await errorOf(await ask({ whatIf: 'twice as fast' }))).toEqual([
      409,
      expect.stringContaining('says nothing known'),
    ]);
    const small = CLUSTER.replaceAll('1000000000', '100000');
    const missing = /of memory is missing\. [ab] has .* and would need /;
    expect(await errorOf(await ask({ cluster: small }))).toEqual([409, expect.stringMatching(missing)]);
  });

  it('go back to a checkpoint that is kept, also when they are finished', async () => {
    await operated.serve(null);
    const { post } = await operated.logIn();
    const donor = await finished();
    await post('/api/operator/keep', { run: 'tiny', step: 30, kept: true });
    const back = (step: number) => post('/api/operator/back', { run: 'tiny', step });
    expect(await errorOf(await back(10))).toEqual([409, 'this checkpoint is gone already']);
    expect((await back(30)).status).toBe(200);
    await donor.hears('prepare', ({ step }) => step === 30);
    await operated.server.run.until(({ phase }) => phase === 'finished');
    expect(operated.data.store.steps('tiny').map(({ step }) => step)).toEqual(
      Array.from({ length: OPERATED_STEPS }, (_, i) => i),
    );
    const { events, snapshot } = await operated.shown();
    const reason = 'the operator sent the run back to checkpoint 30';
    expect(events.filter(({ kind }) => kind === 'rollBack')).toMatchObject([{ atStep: 40, toStep: 30, reason }]);
    expect(snapshot.donors[0]?.tokens).toBeCloseTo(OPERATED_STEPS * 32, 6);
  });

  it('go back, and what was kept of later steps can be exported, cloned and let go', async () => {
    await operated.serve(null);
    const { get, post } = await operated.logIn();
    await finished();
    const { store, blobs } = operated.data;
    const before = store.checkpoint('tiny', 40);
    await post('/api/operator/keep', { run: 'tiny', step: 40, kept: true });
    expect((await post('/api/operator/back', { run: 'tiny', step: 30 })).status).toBe(200);
    await operated.server.run.until(({ phase }) => phase === 'finished');
    const listed = async () => (await (await get('/api/operator/runs')).json()).runs[0];
    expect((await listed()).formerCheckpoints).toEqual([{ committedSteps: 40, generation: 0 }]);
    expect(store.checkpoint('tiny', 40, 0)).toBe(before);
    const archive = await get('/api/operator/export?run=tiny&step=40&generation=0');
    expect([...filesOfTar(Buffer.from(await archive.arrayBuffer())).keys()]).toContain('tiny/model.safetensors');
    const drafted = { ...INITIAL_DRAFT, source: 'tiny', checkpoint: 40 };
    const made = { ...drafted, sequenceLength: 8, globalBatchSize: 4 };
    expect((await post('/api/operator/runs', { ...made, name: 'clone', generation: 0 })).status).toBe(200);
    expect((await post('/api/operator/runs', { ...made, name: 'none', generation: 7 })).status).toBe(409);
    const letGo = () => post('/api/operator/keep', { run: 'tiny', step: 40, generation: 0, kept: false });
    expect((await letGo()).status).toBe(200);
    expect(await errorOf(await letGo())).toEqual([409, 'this checkpoint is gone already']);
    // The clone still names them.
    const { shards } = JSON.parse(store.checkpoint('clone', 0) ?? '');
    for (const { hash } of shards) expect(await blobs.has(hash)).toBe(true);
  });

  it('go along as the folder that a checkpoint exports to', async () => {
    await operated.serve(null);
    const { get } = await operated.logIn();
    await finished();
    const answer = await get('/api/operator/export?run=tiny&step=40');
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="tiny-40.tar"');
    const files = filesOfTar(Buffer.from(await answer.arrayBuffer()));
    expect([...files.keys()].sort()).toEqual(
      ['README.md', 'config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'].map(
        (name) => `tiny/${name}`,
      ),
    );
    expect(JSON.parse(String(files.get('tiny/config.json')))).toMatchObject({ n_embd: 8 });
    const gone = [409, 'checkpoint 10 of "tiny" is not kept any more: newer ones have taken its place'];
    expect(await errorOf(await get('/api/operator/export?run=tiny&step=10'))).toEqual(gone);
    // A page asks before it leaves the download to the browser.
    expect(await errorOf(await get('/api/operator/export?run=tiny&step=10&ask=1'))).toEqual(gone);
    expect(await (await get('/api/operator/export?run=tiny&step=40&ask=1')).json()).toEqual({ ok: true });
  });
});

describe('what is shown beside the numbers', () => {
  it('are few at once, and gone when nobody waits for them any more', async () => {
    await operated.serve(null);
    const { get } = await operated.logIn();
    await finished();
    const left = () => readdirSync(join(operated.data.directory, 'downloads'));
    const all = await Promise.all(Array.from({ length: 6 }, () => get('/api/operator/export?run=tiny')));
    const taken = all.filter(({ status }) => status === 200);
    expect(all.filter(({ status }) => status === 503).length + taken.length).toBe(6);
    expect(taken.length).toBeLessThan(6);
    await Promise.all(taken.map((response) => response.arrayBuffer()));
    const { url } = operated.server;
    for (let i = 0; i < 4; i++) {
      const socket = connect(Number(new URL(url).port), 'localhost');
      await new Promise((resolve) => socket.once('connect', resolve));
      socket.write(`GET /api/operator/export?run=tiny HTTP/1.1\r\nHost: x\r\nCookie: ${operated.cookie}\r\n\r\n`);
      socket.destroy();
    }
    const again = (): Promise<number> =>
      get('/api/operator/export?run=tiny').then((response) => response.arrayBuffer().then(() => response.status));
    await expect.poll(again, { interval: 250, timeout: 5_000 }).toBe(200);
    await expect.poll(left).toEqual([]);
  });

  it('has what a checkpoint writes after fixed prompts, the same again for the same seed', async () => {
    await operated.serve(null);
    const { get, post } = await operated.logIn();
    await finished();
    const ask = (part: object) =>
      post('/api/operator/samples', {
        run: 'tiny',
        step: OPERATED_STEPS,
        prompts: ['Call', '<b>'],
        tokens: 5,
        ...part,
      });
    expect((await ask({})).status).toBe(200);
    const read = async () => (await (await get('/api/operator/samples?run=tiny')).json()) as { samples: object[] };
    const { samples } = await read();
    expect(samples).toEqual([
      { committedSteps: OPERATED_STEPS, prompt: '<b>', text: expect.any(String) },
      { committedSteps: OPERATED_STEPS, prompt: 'Call', text: expect.any(String) },
    ]);
    await ask({});
    expect((await read()).samples).toEqual(samples);
    expect(await errorOf(await ask({ step: 3 }))).toEqual([409, 'this checkpoint is gone already']);
    expect((await ask({ prompts: [] })).status).toBe(400);
  });

  it('tells the world how the run does, and names nobody', async () => {
    const { url } = await operated.serve(null);
    const donor = await finished();
    const text = await (await fetch(`${url}/api/status`)).text();
    expect(publicStatusSchema.parse(JSON.parse(text))).toMatchObject({
      ...{ run: 'tiny', phase: 'finished', committedSteps: OPERATED_STEPS, checkpointStep: OPERATED_STEPS },
    });
    expect(text).not.toContain(donor.welcome.peer);
    const metrics = await fetch(`${url}/metrics`, { headers: { accept: 'application/openmetrics-text' } });
    expect(metrics.headers.get('content-type')).toContain('application/openmetrics-text');
    const [, loss] = /\nshoal_run_loss (\S+)\n[\s\S]*# EOF\n$/.exec(await metrics.text()) ?? [];
    expect(Number(loss)).toBeCloseTo(scriptedLoss(OPERATED_STEPS - 1), 12);
  });
});

describe('the limits of the alerts', () => {
  it('are kept with the run, seen by every dashboard, and stand in the audit', async () => {
    await operated.serve(null);
    const { post } = await operated.logIn();
    expect((await operated.shown()).alertLimits).toEqual(INITIAL_ALERT_LIMITS);
    const limits = { donors: 3, checkpointMinutes: 5, stalledSeconds: 60 };
    const watched = new Promise<void>((resolve) => operated.server.run.onChange(resolve));
    expect((await post('/api/operator/alerts', limits)).status).toBe(200);
    await watched;
    expect((await post('/api/operator/alerts', { ...limits, donors: -1 })).status).toBe(400);
    const { alertLimits, events } = await operated.shown();
    expect(alertLimits).toEqual(limits);
    const what = 'set alerts: fewer than 3 donors, 5 min without a checkpoint, 60 s without a step';
    expect(events.at(-1)).toMatchObject({ kind: 'operator', what });
  });
});

describe('a donor', () => {
  it('is let go at the boundary without a roll-back, or at once, with a sentence for its person', async () => {
    await operated.serve(2);
    const { post } = await operated.logIn();
    const { url } = operated.server;
    // The first one's reports of later steps wait: each word of the operator's comes within a step.
    const held: PeerMessage[] = [];
    let newest = 2;
    const lie = (message: PeerMessage): PeerMessage | null => {
      if (message.type !== 'report' || message.step <= newest) return message;
      held.push(message);
      return null;
    };
    const donors = [new ScriptedDonor(url, { lie }), new ScriptedDonor(url)] as const;
    await donors[0].hears('start', ({ step }) => step === 3);
    const letGo = (donor: ScriptedDonor, how: string) =>
      post('/api/operator/let-go', { peer: donor.welcome.peer, how });
    await letGo(donors[1], 'atBoundary');
    newest = 3;
    for (const message of held) donors[0].say(message);
    await donors[1].hears('standby', ({ state }) => state === 'left');
    expect((await operated.shown()).events.some(({ kind }) => kind === 'rollBack')).toBe(false);
    await letGo(donors[0], 'atOnce');
    expect((await donors[0].hears('refused')).reason).toBe('letGo');
    expect((await letGo(donors[0], 'atOnce')).status).toBe(409);
    expect((await post('/api/operator/let-go', { peer: 'x', how: 'politely' })).status).toBe(400);
  });

  it('is kept out by its address until the door is opened again; the address itself is not kept', async () => {
    await operated.serve(9);
    const { get, post } = await operated.logIn();
    const donor = await ScriptedDonor.joined(operated.server.url);
    await operated.server.run.until((run) => run.donors().length === 1);
    await post('/api/operator/let-go', { peer: donor.welcome.peer, how: 'block' });
    expect((await donor.hears('refused')).reason).toBe('blocked');
    const again = new ScriptedDonor(operated.server.url);
    expect((await again.hears('refused')).reason).toBe('blocked');
    const { blocks } = (await (await get('/api/operator/blocks')).json()) as {
      blocks: { address: string; note: string }[];
    };
    expect(blocks.map(({ note }) => note)).toEqual(['a test']);
    expect(JSON.stringify(blocks)).not.toContain('127.0.0.1');
    await post('/api/operator/unblock', { address: blocks[0]?.address });
    await ScriptedDonor.joined(operated.server.url);
  });
});
