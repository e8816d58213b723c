/** Options that several commands share: how they are read, and what they refuse. */

import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { BROWSER_NAMES, type BrowserName, type DonorSpec, isBrowserName, parseDonorSpec } from '../../swarm/limits.ts';
import { API_MODES } from '../../swarm/messages/apiKeys.ts';
import { SCHEDULE_NAMES, type ScheduleName, WARMED_UP, type WarmUp } from '../../swarm/plan/plan.ts';
import { MOST_REPLICAS } from '../../swarm/run/runFile.ts';
import { findFirefox, noFirefox } from '../headless/findBrowser.mjs';
import { modelsFault } from '../operator/modelFolders.ts';
import { recordFault } from '../run/recorder.ts';
import { parseSiteName } from '../site/siteName.ts';
import { badInput, failed, need } from './failure.ts';

/** What a command's help ends with: words that do something in a fresh clone, perhaps once another command's have run. */
export const tryIt = (words: string, after?: string): string =>
  `\nTry${after === undefined ? '' : ` (after what ${after} --help says)`}: npm run -s shoal -- ${words}`;

/** Refuses options that do nothing without another one, where that was not given. */
export function refuseWithout(other: string, names: readonly string[], command: Command): void {
  const isGiven = (name: string): boolean => {
    const attribute = command.options.find(({ long }) => long === name)?.attributeName();
    return attribute !== undefined && command.getOptionValueSource(attribute) === 'cli';
  };
  const alone = isGiven(other) ? undefined : names.find(isGiven);
  if (alone !== undefined) throw badInput(`${alone} needs ${other}`);
}

/** A whole number from `least` on, up to `most` where there is one; the option's name opens the sentence. */
export const wholeNumber =
  (name: string, least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most) {
      const isTooLarge = /^\d+$/.test(text) && value > most;
      const hasBound = isTooLarge || most !== Number.MAX_SAFE_INTEGER;
      const range = hasBound ? `from ${least} to ${most}` : `of ${least} or more`;
      throw badInput(`${name} must be a whole number ${range}, not "${text}"`);
    }
    return value;
  };

export const positive =
  (name: string) =>
  (text: string): number => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value > 0 && value < Number.POSITIVE_INFINITY) return value;
    throw badInput(`${name} must be a number above 0, not "${text}"`);
  };

export const shareOption =
  (name: string) =>
  (text: string): number => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value >= 0 && value <= 1) return value;
    throw badInput(`${name} must be a number from 0 to 1, not "${text}"`);
  };

/** auto: whatever plan has the best predicted step time. */
export type ScheduleWish = ScheduleName | 'auto';
export const SCHEDULE_WISHES: readonly ScheduleWish[] = ['auto', ...SCHEDULE_NAMES];

export function schedule(text: string): ScheduleWish {
  const known = SCHEDULE_WISHES.find((name) => name === text);
  if (known !== undefined) return known;
  const names = SCHEDULE_WISHES.join(', ');
  throw badInput(`--schedule "${text}" is unknown: expected one of ${names}`);
}

/** What goes with some schedules alone, and how many copies there are of the state. */
export const planOptions = (command: Command): Command =>
  command
    .option(
      '--chunks <v>',
      'stages for each donor, with interleaved or breadth-first (default: 2)',
      wholeNumber('--chunks', 1),
    )
    .option(
      '--pairs <f>',
      'pairs of pipelines in opposite directions, with chimera (default: 1)',
      wholeNumber('--pairs', 1),
    )
    .option(
      '--warmup <name>',
      `overlap: start with more micro-batches, so that transfers hide behind work (with ${WARMED_UP.join(' or ')})`,
      warmup,
    )
    .option(
      '--replicas <n>',
      "extra copies of each part of the training state, 0 to 3; overrides the run file's state.replicas",
      wholeNumber('--replicas', 0, MOST_REPLICAS),
    );

function warmup(text: string): WarmUp {
  if (text === 'overlap') return text;
  throw badInput(`--warmup "${text}" is unknown: expected overlap, or leave it out`);
}

/** Each `--donor` adds one. */
export function donorSpec(text: string, before: readonly DonorSpec[] = []): readonly DonorSpec[] {
  return [...before, need(parseDonorSpec(text), (reason) => badInput(`--donor ${text}: ${reason}`))];
}

export const API_OPTION = new Option(
  '--api <who>',
  'who may ask the models over /v1: nobody, who has a key from the dashboard, or anyone, by address',
)
  .choices(API_MODES)
  .default('keys');

export const RECORD_OPTION = 'append every event to this file, one JSON object a line, for `shoal replay`';

export function checkRecord(path: string | undefined): void {
  const fault = path === undefined ? null : recordFault(path);
  if (fault !== null) throw badInput(`--record: ${fault}`);
}

export const BROWSER_OPTION = `which browser headless donors run in: ${BROWSER_NAMES.join(' or ')}`;

export function browser(text: string): BrowserName {
  if (isBrowserName(text)) return text;
  throw badInput(`--browser "${text}" is unknown: expected ${BROWSER_NAMES.join(' or ')}`);
}

/** Before anything is written or served: whether these can be opened here. */
export function checkBrowsers(browsers: readonly BrowserName[]): void {
  if (browsers.includes('firefox') && findFirefox() === null) throw failed(noFirefox());
}

/** Of `--learning-rate`. */
export function learningRate(text: string): number {
  const value = Number(text);
  const isFinite32 = Number.isFinite(Math.fround(value));
  if (!(value > 0 && isFinite32))
    throw badInput(`--learning-rate must be a number above 0 that float32 can hold, not "${text}"`);
  return value;
}

/** Addresses of one NATS, with commas between them. */
export function natsUrls(text: string): string[] {
  const urls = text.split(',').map((part) => part.trim());
  if (urls.every(isNatsUrl)) return urls;
  throw badInput('a NATS must be nats://HOST:PORT or tls://HOST:PORT, with commas between them');
}

/** A host, a port where one is named, and credentials that can be read. */
function isNatsUrl(text: string): boolean {
  if (!/^(nats|tls):\/\/[^\s/]+$/.test(text) || !URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false; // a percent sign that stands for nothing
  }
}

export const DEFAULT_SITE = 'shoal';

export function siteName(text: string): string {
  const name = parseSiteName(text);
  if (!name.ok) throw badInput(name.reason);
  return name.value;
}

/** The folder of `--models`. */
export function modelsFolder(directory: string): string {
  const fault = modelsFault(directory);
  if (fault === null) return resolve(directory);
  throw badInput(`--models ${fault}`);
}
