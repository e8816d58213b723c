/** `shoal plan --sweep`: each cell against a plan made for a cluster that is written out. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { runCommand } from './program.ts';

const RUN = fileURLToPath(new URL('../../e2e/golden/gpt2-tiny/run.json', import.meta.url));
const peer = (id: string, flopsPerSecond: number, more: object = {}) => ({
  id,
  memoryBytes: 1e9,
  flopsPerSecond,
  ...more,
});
const LINK = { latencySeconds: 0.001, bytesPerSecond: 1e6 };
const PAIR = { between: ['a', 'b'], latencySeconds: 0.0001, bytesPerSecond: 1e8 };
const PEERS = [peer('a', 2e8), peer('b', 1e8)];
const CLUSTER = { peers: PEERS, links: { default: LINK, pairs: [PAIR] } };

const command = new Captured();
beforeEach(() => command.begin());
afterEach(() => command.end());

function write(name: string, content: unknown): string {
  const path = join(command.folder, name);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

async function printed(run: string, cluster: unknown, ...words: string[]): Promise<string> {
  command.clear();
  const path = write('cluster.json', cluster);
  expect(await runCommand(['plan', run, '--cluster', path, ...words]), command.errors).toBe(0);
  return command.out;
}

interface Cell {
  readonly at: readonly number[];
  readonly tokensPerSecond: number | null;
  readonly seconds: number | null;
  readonly limit: string;
}

async function swept(run: string, cluster: unknown, text: string): Promise<{ axes: unknown; cells: Cell[] }> {
  return JSON.parse(await printed(run, cluster, '--json', '--sweep', text));
}

test('each cell is the plan of its cluster: the file’s peers in turn, then copies with a default link between them', async () => {
  const { axes, cells } = await swept(RUN, CLUSTER, 'peers 3..4; bytesPerSecond x0.5..x1');
  expect(axes).toEqual([
    { name: 'peers', values: [3, 4] },
    { name: 'bytesPerSecond', values: [0.5, 1] },
  ]);
  expect(cells.map(({ at }) => at)).toEqual([3, 4].flatMap((count) => [0.5, 1].map((factor) => [count, factor])));
  const all = [...PEERS, peer('a-2', 2e8), peer('b-2', 1e8)];
  const pairs = [PAIR, { ...PAIR, between: ['a-2', 'b'] }, { ...PAIR, between: ['a', 'b-2'] }];
  for (const { at, tokensPerSecond, seconds } of cells) {
    const [count = 0, factor = 0] = at;
    const peers = all.slice(0, count);
    const own = pairs.filter(({ between }) => between.every((id) => peers.some((one) => one.id === id)));
    const scaled = <T extends typeof LINK>(link: T): T => ({ ...link, bytesPerSecond: link.bytesPerSecond * factor });
    const cluster = { peers, links: { default: scaled(LINK), pairs: own.map(scaled) } };
    const { predicted } = JSON.parse(await printed(RUN, cluster, '--json'));
    expect([tokensPerSecond, seconds], at.join()).toEqual([predicted.tokensPerSecond, predicted.stepSeconds]);
  }
});

test('of islands the rate of rounds, which donors that leave hold back; and what does not fit', async () => {
  const run = JSON.parse(readFileSync(RUN, 'utf8'));
  const train = { ...run.train, islands: { count: 'auto', roundSeconds: 300 } };
  const islands = write('islands.json', { ...run, train });
  const leaving = { peers: [peer('a', 2e8, { meanSessionSeconds: 60 })] };
  const [cell] = (await swept(islands, leaving, 'peers 1..1')).cells;
  const { predicted } = JSON.parse(await printed(islands, leaving, '--json'));
  const { tokensPerSecond, roundSeconds: seconds } = predicted;
  expect(cell).toEqual({ at: [1], tokensPerSecond, seconds, limit: 'sessions' });
  const small = { peers: [peer('a', 1e9, { memoryBytes: 1e3 })] };
  const [none] = (await swept(RUN, small, 'peers 1..1')).cells;
  expect(none).toEqual({ at: [1], tokensPerSecond: null, seconds: null, limit: 'memory' });
});

test('a table and a picture that say in words what colours say', async () => {
  const picture = join(command.folder, 'sweep.svg');
  const table = await printed(RUN, CLUSTER, '--sweep', 'peers 1..1; flopsPerSecond x1..x2', '--svg', picture);
  expect(table).toMatch(/^peers \\ flopsPerSecond +x1 +x2\n1 +[\d.e+]+ compute +[\d.e+]+ compute\nIn each cell: /);
  const svg = readFileSync(picture, 'utf8');
  expect(svg.match(/<g>/g)).toHaveLength(2);
  for (const [, rate = '-'] of table.matchAll(/ ([\d.]+) compute/g))
    expect(svg).toContain(`>${Number(Number(rate).toPrecision(3))}<`);
  const [lightest, darkest] = [/hsl\(212 45% 92%\)/g, /hsl\(212 45% 28%\)/g].map((shade) => svg.match(shade)?.length);
  expect([lightest, darkest]).toEqual([1, 1]);
  expect(await printed(RUN, CLUSTER, '--sweep', 'memoryBytes x1..x1')).toMatch(
    /^memoryBytes +tokens a second +step or round +doubled helps most\nx1 /,
  );
});

test.each([
  [['--sweep', 'peers 3..2'], '--sweep: "peers 3..2" must be from 1 to 1000 peers, the fewer first'],
  [['--sweep', 'speed x1..x2'], '--sweep: "speed x1..x2" says nothing known: expected "peers A..B" or "FIELD xA..xB"'],
  [['--sweep', 'memoryBytes x2..x1'], '--sweep: "memoryBytes x2..x1" must be of factors above 0'],
  [['--sweep', 'peers 1..2; peers 1..2'], '--sweep: "peers" is named twice'],
  [['--sweep', ' ; '], '--sweep: " ; " has 0 axes'],
  [['--sweep', 'peers 1..401'], '--sweep: "peers 1..401" has 401 cells: 400 at most were expected'],
  [['--sweep', 'memoryBytes x1e29..x1e29'], '--sweep: the cluster at memoryBytes 1e+29: peers[0].memoryBytes'],
  [['--svg', 'x.svg'], '--svg needs --sweep'],
])('refuses %j', async (words, sentence) => {
  const path = write('cluster.json', CLUSTER);
  expect(await runCommand(['plan', RUN, '--cluster', path, ...words])).toBe(2);
  expect(command.errors.slice(0, sentence.length)).toBe(sentence);
});
