import { appendFileSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { begin } from '../../swarm/decisions/decide.ts';
import type { Profile } from '../../swarm/messages/profile.ts';
import { EXPECTED } from '../../swarm/recording/recording.ts';
import { decisionConfig, rehearsalTerms } from '../../swarm/testing/rehearsalTerms.ts';
import { openRecorder, Recorder } from '../run/recorder.ts';
import type { Server, ServerOptions } from '../server.ts';
import { Captured } from '../testing/captured.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { runCommand } from './program.ts';

const RUN = { steps: 6, checkpointEverySteps: 2, evaluationEverySteps: 3 };
const INVITE = 'come-all-ye';
const MEASURED: Profile = {
  layers: [{ samples: 1, forwardSeconds: 0.01, backwardSeconds: 0.02 }],
  ...{ memoryBytes: 1e9, checkedKernels: 0 },
};
const KEY = 'k'.repeat(43);

const command = new Captured();
let servers: TinyServers;
let recordPath = '';
beforeEach(() => {
  command.begin();
  servers = new TinyServers(RUN);
  recordPath = join(servers.folder, 'of', 'record.jsonl');
});
afterEach(async () => {
  await servers.close();
  command.end();
});

const serve = (options: Partial<ServerOptions> = {}): Promise<Server> => servers.serve({ recordPath, ...options });
const linesOf = (): string[] => readFileSync(recordPath, 'utf8').split('\n').slice(0, -1);
const replay = async (...options: string[]): Promise<number> => {
  command.clear();
  const code = await runCommand(['replay', recordPath, ...options]);
  process.exitCode = undefined;
  return code;
};

/** Two donors, one of whom is lost, then a server that goes on from the store and plans by measurements. */
async function trained(): Promise<void> {
  const first = await serve({ expectedDonors: 2, steps: 4 });
  const stays = new ScriptedDonor(first.url);
  const goes = await ScriptedDonor.joined(first.url);
  await goes.hears('committed', ({ step }) => step === 2);
  goes.vanish();
  await stays.hears('standby', ({ state }) => state === 'finished');
  await first.close();
  const second = await serve({ auto: true });
  second.run.command('stop');
  second.run.command('start');
  const last = new ScriptedDonor(second.url, { profile: MEASURED });
  await last.hears('standby', ({ state }) => state === 'finished');
  await second.close();
}

describe('a recording of a server', () => {
  it('comes out the same again: a donor lost, a restart from the store, a stop and a start', async () => {
    await trained();
    const of = (type: string) => linesOf().filter((line) => line.includes(`"type":"${type}"`)).length;
    expect([of('began'), of('restarted')]).toEqual([2, 1]);
    expect(of('searched')).toBeGreaterThan(0);
    expect(await replay()).toBe(0);
    expect(command.out).toMatch(new RegExp(`^${linesOf().length} events, \\d+ effects, equal\n$`));
    expect(await replay('--json')).toBe(0);
    expect(JSON.parse(command.out)).toEqual({ events: linesOf().length, effects: expect.any(Number), equal: true });
  });

  it('that somebody edited is told apart, with the first event that differs', async () => {
    await trained();
    const lines = linesOf();
    const place = lines.findIndex((line) => line.includes('"type":"report"'));
    const edited = (lines[place] ?? '').replace(/"bytesDirect":\d+/, '"bytesDirect":101');
    writeFileSync(recordPath, `${lines.with(place, edited).join('\n')}\n`);
    expect(await replay()).toBe(1);
    const digest = '[\\w-]{22}';
    const sentence = `^event ${place + 1} \\(donorSaid at [\\d.]+ ms\\): its state differs \\(coordinator.phase, replanner.donors\\): ${digest} was recorded, ${digest} came\n$`;
    expect(command.out).toMatch(new RegExp(sentence));
    expect(await replay('--json')).toBe(1);
    const { equal, events, difference } = JSON.parse(command.out);
    const { state } = JSON.parse(edited);
    expect({ equal, events, difference }).toMatchObject({
      ...{ equal: false, events: place + 1 },
      difference: { event: place + 1, type: 'donorSaid', in: 'state', recorded: state },
    });
  });

  it('whose last line is torn is read up to it, and a restart goes on behind the last whole one', async () => {
    await trained();
    const whole = linesOf();
    appendFileSync(recordPath, '{"at":12,"event":{"type":"donor');
    expect(await replay()).toBe(0);
    expect(command.out).toMatch(new RegExp(`^${whole.length} events, \\d+ effects, equal\n$`));
    expect(command.errors).toBe(`${recordPath}: line ${whole.length + 1}, the last one, is torn and was left out\n`);
    const server = await serve();
    await server.close();
    expect(linesOf().slice(0, -1)).toEqual(whole);
    expect(linesOf().at(-1)).toContain('"type":"began"');
    expect(await replay()).toBe(0);
    expect(command.errors).toBe('');
  });

  it('has the event over which the server was killed; a restart keeps it, and a replay says so', async () => {
    await trained();
    const whole = linesOf();
    const event = '{"at":12,"event":{"type":"donorGone","peer":"nobody","detail":"closed"}';
    appendFileSync(recordPath, event);
    const sentence = `event ${whole.length + 1} (donorGone at 12 ms): the server ended while it was decided; it is decided again now\n`;
    expect(await replay()).toBe(0);
    expect(command.out).toMatch(new RegExp(`^${whole.length + 1} events, \\d+ effects, equal\n$`));
    expect(command.errors).toBe(sentence);
    const server = await serve();
    await server.close();
    expect(linesOf().slice(whole.length)).toEqual([`${event}}`, expect.stringContaining('"type":"began"')]);
    expect(await replay('--json')).toBe(0);
    expect(JSON.parse(command.out)).toMatchObject({
      equal: true,
      undecided: [{ event: whole.length + 1, type: 'donorGone', at: 12 }],
    });
    expect(command.errors).toBe(sentence);
  });

  it('that is empty, or has an empty or a cut line, is refused in a sentence with the line', async () => {
    await trained();
    const lines = linesOf();
    const middle = lines.with(4, '');
    for (const [text, reason] of [
      ['', ' is empty: a recording was expected'],
      ['\n', `: line 1 is empty: ${EXPECTED}`],
      ['{"at":1', `: line 1 is cut: ${EXPECTED}`],
      [`${middle.join('\n')}\n`, `: line 5 is empty: ${EXPECTED}`],
      [`${lines.with(4, '{"at":1,').join('\n')}\n`, `: line 5 is not valid JSON: ${EXPECTED}`],
    ] as const) {
      writeFileSync(recordPath, text);
      expect(await replay()).toBe(2);
      expect(command.errors).toBe(`${recordPath}${reason}\n`);
    }
  });

  it('is refused at the start where nothing can be written', async () => {
    for (const [path, reason] of [
      ['/proc/x', '/proc/x cannot be made: nothing can be written in /proc'],
      ['/proc/x/y', '/proc/x/y cannot be made: nothing can be written in /proc'],
      [servers.folder, `${servers.folder} is a folder: a file to write was expected`],
    ]) {
      command.clear();
      expect(await runCommand(['swarm', servers.runPath, '--donors', '1', '--record', `${path}`])).toBe(2);
      expect(command.errors).toBe(`--record: ${reason}\n`);
    }
  });

  it('has no token, no key, no invitation and no address in it', async () => {
    const server = await serve({ invite: INVITE });
    const donor = new ScriptedDonor(server.url, { invite: INVITE, key: KEY });
    await donor.hears('standby', ({ state }) => state === 'finished');
    await server.close();
    const text = readFileSync(recordPath, 'utf8');
    expect(text).toContain(donor.welcome.peer);
    for (const secret of [donor.welcome.token, server.operatorToken(), INVITE, KEY, '127.0.0.1', '::1', 'localhost'])
      expect(text).not.toContain(secret);
  });

  it('ends where nothing more can be written, with one warning', () => {
    const warned: string[] = [];
    const recorder = new Recorder(openSync('/dev/full', 'a'), (text) => warned.push(text));
    const config = decisionConfig(rehearsalTerms({}).config, {});
    const start = {
      ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
      ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
      ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null },
    };
    for (const at of [1, 2]) {
      recorder.began(config, start, at);
      recorder.decided(begin(config, start), []);
    }
    recorder.close();
    expect(warned).toEqual([expect.stringMatching(/^The recording ends here: ENOSPC/)]);
  });

  it('is refused in a sentence where it is none, and nothing is appended to another file', async () => {
    const folder = join(servers.folder, 'other');
    mkdirSync(folder);
    const other = join(folder, 'notes.txt');
    writeFileSync(other, 'dear diary\n');
    expect(openRecorder(other, () => {})).toEqual({
      ok: false,
      reason: `${other}: line 1 is not valid JSON: ${EXPECTED}`,
    });
    expect(readFileSync(other, 'utf8')).toBe('dear diary\n');
    for (const [path, sentence] of [
      [other, `${other}: line 1 is not valid JSON: ${EXPECTED}`],
      [join(folder, 'nothing'), `${join(folder, 'nothing')}: there is no such file: a recording was expected`],
      [folder, `${folder} is not a file: a recording was expected`],
    ] as const) {
      command.clear();
      expect(await runCommand(['replay', path])).toBe(2);
      expect(command.errors).toBe(`${sentence}\n`);
    }
    expect(await runCommand(['swarm', servers.runPath, '--donors', '1', '--record', other])).toBe(2);
    expect(await runCommand(['serve', '--record', other])).toBe(2);
    expect(existsSync(join(folder, 'nothing'))).toBe(false);
  });
});
