/** What operators and the server itself set: words by their keys, texts, and addresses that may not join. */
import { z } from 'zod';
import { TEXT_FORMATS } from '../../swarm/run/runFile.ts';
import type { Queries } from './queries.ts';

/** Settings that are one run's, as JSON or in words: their keys end with its name. */
const OF_RUN = ['alertLimits', 'card', 'note'] as const;

/**
 * `webhook`: whom the server tells of alerts; `toldAlerts`: those of which that address was told the beginning and not
 * the end; `sessions`: the dashboard's; `invite`: what a site keeps of its invitation (siteInvite.ts); `apiKeys`: who may ask a model.
 */
type Setting = 'webhook' | 'toldAlerts' | 'sessions' | 'invite' | 'apiKeys' | `${(typeof OF_RUN)[number]} ${string}`;

const VISITS = 'visits';

export const isSettingOfRun = (key: unknown, run: string): boolean =>
  OF_RUN.some((kind) => key === `${kind} ${run}`) || `${key}`.startsWith(`${VISITS} ${run} `);

const QUEUE = 'queue';
/** In a site: which runs train beside its first one. */
export const BESIDE_SETTING = 'besideRuns';
const namesSchema = z.array(z.string());

/** Of a text that an operator brought along, by its name: itself, and the end that was cut off it, as two blobs. */
const TEXT = 'text ';
const textSchema = z.object({
  bytes: z.int(),
  hash: z.string(),
  heldOutHash: z.string(),
  /** Those of earlier versions are texts. */
  format: z.enum(TEXT_FORMATS).default('text'),
});

interface KeptText extends z.infer<typeof textSchema> {
  readonly name: string;
}

interface Block {
  /** A keyed hash: no address is kept. */
  readonly address: string;
  readonly atMs: number;
  readonly note: string;
}

export const settingStore = ({ one, many, run }: Queries) => {
  const value = (key: string): string | null =>
    one<{ value: string }>('SELECT value FROM setting WHERE key = ?', key)?.value ?? null;
  const set = (key: string, value: string): void => run('INSERT OR REPLACE INTO setting VALUES (?, ?)', key, value);
  const names = (key: string): string[] => namesSchema.parse(JSON.parse(value(key) ?? '[]'));
  return {
    /** Null: nobody has said. */
    setting: (key: Setting) => value(key),
    saveSetting: (key: Setting, value: string) => set(key, value),
    /** A secret of this directory, made by `create` the first time it is asked for. */
    secret: (key: string, create: () => string) => {
      const known = value(key);
      if (known !== null) return known;
      const made = create();
      set(key, made);
      return made;
    },
    /** How often donors with these words for a name came to the run, this time included. */
    visits: (name: string, words: string) => {
      const key = `${VISITS} ${name} ${words}`;
      const visits = Number(value(key) ?? 0) + 1;
      set(key, `${visits}`);
      return visits;
    },
    /** Another one is made when it is asked for. */
    forgetSecret: (key: string) => run('DELETE FROM setting WHERE key = ?', key),
    /** Names of the runs that are to come, the next one first. */
    queue: () => names(QUEUE),
    saveQueue: (names: readonly string[]) => set(QUEUE, JSON.stringify(names)),
    /** Names of the runs of a site that train beside the active one, each in a store of its own, in the order begun. */
    besideRuns: () => names(BESIDE_SETTING),
    saveBesideRuns: (names: readonly string[]) => set(BESIDE_SETTING, JSON.stringify(names)),
    /** What an operator notes of a run; empty: nothing. */
    note: (name: string) => value(`note ${name}`) ?? '',
    /** That operators brought along, by name. */
    texts: () =>
      many<{ key: string; value: string }>(
        'SELECT key, value FROM setting WHERE key GLOB ? ORDER BY key',
        `${TEXT}*`,
      ).map(({ key, value }) => ({ name: key.slice(TEXT.length), ...textSchema.parse(JSON.parse(value)) })),
    saveText: ({ name, ...text }: KeptText) => set(`${TEXT}${name}`, JSON.stringify(text)),
    block: (address: string, note: string, nowMs: number) =>
      run('INSERT OR REPLACE INTO block VALUES (?, ?, ?)', address, nowMs, note),
    unblock: (address: string) => run('DELETE FROM block WHERE address = ?', address),
    blocks: () => many<Block>('SELECT address, atMs, note FROM block ORDER BY atMs DESC LIMIT 1000'),
    isBlocked: (address: string) => one('SELECT 1 FROM block WHERE address = ?', address) !== null,
  };
};
