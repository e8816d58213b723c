import { createHash } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { recording } from '../../../../swarm/recording/recording.ts';
import { allCases, type Case, caseText, parseCase, play } from './cases.ts';
import { HARMS, type Harm, OF_ALL, ROLES } from './harms.ts';

/** `npm test -- --long`: the whole grid. */
const IS_LONG = process.env.SHOAL_LONG === '1';
const GROUPS = 12;
/** From one commit to the next, where nothing is lost: of the simulation's clock. */
const LONGEST_PAUSE_MS = 10_000;
/** From the last one to the end. */
const LAST_PAUSE_MS = 12_000;
/** One case alone, as a failure names it. */
const ONE = process.env.SHOAL_CASE;
const AGAIN = 'npx vitest run --project swarm web/src/testing/simulation/harmed.test.ts';

/** After these a copy of every shard is left: no committed step is given up. */
const NOTHING_IS_LOST: readonly Harm[] = [
  'kill',
  'vanish',
  'hang',
  'freeze',
  'loseDevice',
  'cutOff',
  'loseLinks',
  'loseSocket',
  'killServer',
  'leave',
  'join',
];

/** The end is held up, and nobody is asked for another step. */
const AFTER_ALL = '1113 hang first at effect storeCommit 8';

/** As it was about to send its part of the last checkpoint. */
const AT_THE_END: readonly string[] = ['5 hang first at committed 40', '5 hang last at upload 18'];

/** Cases that came out wrong once, and why. */
const FOUND: readonly (readonly [why: string, text: string])[] = [
  ['a commit found its step’s run ended', '20 kill first at effect storeCommit 7'],
  ['a commit found its step’s run ended by a lost link', '995 loseLinks middle at upload 10'],
  ['the last state was asked of nobody who had it', '25 kill first at uploaded 6'],
  ['an epoch that was left waited for its links', '886 loseLinks last at frame gradient 36'],
  ['all waited for the values of one that hung, and went with it', '1233 hang replica at frame values 87'],
  ['one that hung while it completed a step took all others with it', '363 hang replica at effect send 36'],
  ['one that hung after the last commit took all others with it', AFTER_ALL],
  ...AT_THE_END.map((text) => ['one that hung with its part of the last checkpoint held up the end', text] as const),
];

async function problemsOf(one: Case): Promise<string[]> {
  const { problems, rollBacks, longestPauseMs, lastPauseMs } = await play(one);
  const isFound = FOUND.some(([, text]) => text === caseText(one));
  if (!NOTHING_IS_LOST.includes(one.harm) && !isFound) return [...problems];
  const lost = rollBacks.map((steps) => `${steps} committed steps are given up`);
  const isAtTheEnd = [AFTER_ALL, ...AT_THE_END].includes(caseText(one));
  const pauseMs = isAtTheEnd ? Math.max(longestPauseMs, lastPauseMs) : longestPauseMs;
  const late =
    pauseMs > (isAtTheEnd ? LAST_PAUSE_MS : LONGEST_PAUSE_MS) ? [`${pauseMs} ms pass between two commits`] : [];
  return [...problems, ...lost, ...late];
}

/** Played once more, with what was decided on a file. */
async function record(one: Case): Promise<string> {
  const file = join(tmpdir(), `shoal-simulation-${one.seed}.jsonl`);
  writeFileSync(file, '');
  const hash = (text: string): string => createHash('sha256').update(text).digest('base64url');
  await play(one, { recording: recording(hash, (text) => appendFileSync(file, text)) });
  return file;
}

async function failures(cases: readonly Case[]): Promise<string[]> {
  const found: string[] = [];
  for (const one of cases) {
    const [problem] = await problemsOf(one);
    if (problem === undefined) continue;
    const file = await record(one);
    found.push(`${problem}\n  again: SHOAL_CASE="${caseText(one)}" ${AGAIN}\n  decided: shoal replay ${file}`);
  }
  return found;
}

test.runIf(ONE === undefined).each(FOUND)('where %s: %s', async (_why, text) => {
  expect(await failures([parseCase(text)])).toEqual([]);
});

const pairOf = ({ harm, whom }: Pick<Case, 'harm' | 'whom'>): string =>
  `${harm} ${OF_ALL.includes(harm) ? ROLES[0] : whom}`;

/** A few with everyone in every role harmed in every way, and something that goes wrong at every point. */
function fewOf(all: readonly Case[]): Case[] {
  const seen = new Set<string>();
  const newIn = (one: Case): number => [pairOf(one), one.point].filter((name) => !seen.has(name)).length;
  // Those with something new in both ways come first, so that they are few.
  return [2, 1].flatMap((least) =>
    all.filter((one) => {
      const isDue = newIn(one) >= least;
      if (isDue) seen.add(pairOf(one)).add(one.point);
      return isDue;
    }),
  );
}

describe('one thing that goes wrong at any point', { timeout: 3_600_000 }, async () => {
  const all = ONE === undefined ? await allCases() : [parseCase(ONE)];
  const chosen = IS_LONG || ONE !== undefined ? all : fewOf(all);
  const size = Math.ceil(chosen.length / GROUPS);

  test.runIf(ONE === undefined)(
    'everyone in every role is harmed in every way, and something goes wrong at every point',
    () => {
      const namesOf = (cases: readonly Case[], name: (one: Case) => string) => new Set(cases.map(name));
      const every = HARMS.flatMap((harm) => ROLES.map((whom) => pairOf({ harm, whom })));
      expect(namesOf(chosen, pairOf)).toEqual(new Set(every));
      expect(namesOf(chosen, ({ point }) => point)).toEqual(namesOf(all, ({ point }) => point));
      // The grid is whole: the long lane plays all of it.
      expect(all).toHaveLength(new Set(every).size * namesOf(all, ({ point }) => point).size);
    },
  );

  for (let from = 0; from < chosen.length; from += size) {
    const group = chosen.slice(from, from + size);
    test(`changes no bit of what comes out, and the run ends (${from + 1} to ${from + group.length})`, async () => {
      expect(await failures(group)).toEqual([]);
    });
  }
});
