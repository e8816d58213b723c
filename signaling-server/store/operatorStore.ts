/**
 * What the store keeps for the operator alone: a bounded history of events, the newest steps' measured spans, and which
 * checkpoints are to stay. Everything here is bounded when it is written, so that a run of a year takes
 * no more room than one of a day.
 */
import { z } from 'zod';
import { peerId } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import type { LedgerEntry } from '../../swarm/plan/ledger.ts';
import type { Queries, Row } from './queries.ts';

/** Events of a run that are kept; what operators did is kept apart from what donors did, so that no crowd pushes it out. */
const EVENTS_KEPT = 10_000;
const ACTIONS_KEPT = 2_000;
/** Every so many events the oldest ones are looked for. */
const PRUNE_EVERY = 64;
/** Steps whose spans are kept. */
const TRACES_KEPT = 256;
/** Checkpoints of which samples are kept. */
const SAMPLED_CHECKPOINTS = 200;

/** Key of a run's limits among the settings. */
const ALERT_LIMITS = 'alertLimits ';

/** And of what the operator says of it. */
const CARD = 'card ';

/** And of what they note for themselves. */
const NOTE = 'note ';

/** Of settings that are one run's: their keys end with its name. */
export const OF_RUN_SETTINGS = [ALERT_LIMITS, CARD, NOTE];

/** And of a text that an operator brought along, by its name. */
const TEXT = 'text ';
const textSchema = z.object({ bytes: z.int(), hash: z.string(), heldOutHash: z.string() });

const WEBHOOK = 'webhook';
const TOLD_ALERTS = 'toldAlerts';
const QUEUE = 'queue';
/** In a site: which runs train beside its first one. */
export const BESIDE_SETTING = 'besideRuns';
/** In a site: whether its runs are by invitation, and a digest of that. */
const INVITE = 'invite';
const namesSchema = z.array(z.string());

/** Key of the dashboard's sessions there. */
const SESSIONS = 'sessions';

/** What an operator did: the audit. */
export const OPERATOR_EVENT = 'operator';

export interface EventRow {
  readonly id: number;
  readonly atMs: number;
  /** Committed steps when it happened. */
  readonly step: number;
  readonly kind: string;
  readonly detail: string;
}

export interface TraceRow {
  readonly step: number;
  readonly epoch: number;
  readonly bubble: number;
  /** JSON of the spans. */
  readonly spans: string;
}

interface CheckpointRow {
  readonly committedSteps: number;
  /** Not superseded by newer ones. */
  readonly kept: boolean;
}

/** A kept one, of steps that a roll-back undid: nobody goes on from it. */
interface FormerCheckpointRow {
  readonly committedSteps: number;
  /** Whose steps they were. */
  readonly generation: number;
}

interface BlockRow {
  /** A keyed hash: no address is kept. */
  readonly address: string;
  readonly atMs: number;
  readonly note: string;
}

interface SampleRow {
  readonly committedSteps: number;
  readonly prompt: string;
  readonly text: string;
}

/** A text to train on, and the end that was cut off it: two blobs. */
interface KeptText extends z.infer<typeof textSchema> {
  readonly name: string;
}

export interface OperatorStore {
  addEvent(name: string, kind: string, detail: string, nowMs: number, step?: number): void;
  /** The newest `limit` events after the one of the number `after`, oldest first. */
  history(name: string, after: number, limit: number): EventRow[];
  /** When the newest event of this kind was; null: there is none. */
  lastEventMs(name: string, kind: string): number | null;
  saveTraces(name: string, traces: readonly TraceRow[]): void;
  /** Of this step, or of the newest one before it that is kept. */
  trace(name: string, step: number): TraceRow | null;
  /** First and last step whose spans are kept. */
  traceRange(name: string): readonly [number, number] | null;
  /** Idle share by step, from `from` on. */
  bubbles(name: string, from: number): Map<number, number>;
  checkpoints(name: string): CheckpointRow[];
  formerCheckpoints(name: string): FormerCheckpointRow[];
  keepCheckpoint(name: string, committedSteps: number, kept: boolean): void;
  /** At most about `count` committed steps before `until`, evenly spread. */
  stepsSpread(name: string, until: number, count: number): CommitRecord[];
  /** The plan of an epoch as JSON, and why it was made. */
  epoch(name: string, epoch: number): { readonly plan: string; readonly reason: string } | null;
  createdAtMs(name: string): number;
  /** What each donor earned with the steps from `from` on. */
  ledgerFrom(name: string, from: number): LedgerEntry[];
  /** When operators want to be told, as JSON; null: nobody has said. */
  alertLimits(name: string): string | null;
  saveAlertLimits(name: string, limits: string): void;
  /** What the operator says of a run, as JSON; null: nothing. */
  card(name: string): string | null;
  saveCard(name: string, card: string): void;
  /** Names of the runs that are to come, the next one first. */
  queue(): string[];
  saveQueue(names: readonly string[]): void;
  /** Names of the runs of a site that train beside the active one, each in a store of its own, in the order begun. */
  besideRuns(): string[];
  saveBesideRuns(names: readonly string[]): void;
  /** Of a site: what it keeps of its invitation (siteInvite.ts); null: nobody has said. */
  siteInvite(): string | null;
  saveSiteInvite(invite: string): void;
  /** That operators brought along, by name. */
  texts(): KeptText[];
  saveText(text: KeptText): void;
  /** Whom the server tells of alerts: an address; null: nobody. */
  webhook(): string | null;
  saveWebhook(url: string): void;
  /** Alerts of which that address was told the beginning and not the end, as JSON; null: none. */
  toldAlerts(): string | null;
  saveToldAlerts(alerts: string): void;
  /** What an operator notes of a run; empty: nothing. */
  note(name: string): string;
  saveNote(name: string, note: string): void;
  /** Those of the dashboard, as JSON; null: there was none yet. */
  sessions(): string | null;
  saveSessions(sessions: string): void;
  block(address: string, note: string, nowMs: number): void;
  unblock(address: string): void;
  blocks(): BlockRow[];
  isBlocked(address: string): boolean;
  /** The newest ones of so many checkpoints are kept. */
  saveSample(name: string, sample: SampleRow): void;
  samples(name: string): SampleRow[];
}

const eventRow = (row: Row): EventRow => ({
  id: Number(row.id),
  atMs: Number(row.atMs),
  step: Number(row.step),
  kind: String(row.kind),
  detail: String(row.detail),
});

const traceRow = (row: Row): TraceRow => ({
  step: Number(row.step),
  epoch: Number(row.epoch),
  bubble: Number(row.bubble),
  spans: String(row.spans),
});

export function operatorStore({ one, many, run, atomically, records }: Queries): OperatorStore {
  const prune = (name: string): void => {
    for (const [condition, kept] of [
      ['kind = ?', ACTIONS_KEPT],
      ['kind <> ?', EVENTS_KEPT],
    ] as const)
      run(
        `DELETE FROM event WHERE run = ? AND ${condition} AND id <= (SELECT id FROM event WHERE run = ? AND ${condition} ORDER BY id DESC LIMIT 1 OFFSET ${kept})`,
        ...[name, OPERATOR_EVENT, name, OPERATOR_EVENT],
      );
  };
  const setting = (key: string): string | null => {
    const row = one('SELECT value FROM setting WHERE key = ?', key);
    return row && String(row.value);
  };
  const set = (key: string, value: string): void => run('INSERT OR REPLACE INTO setting VALUES (?, ?)', key, value);
  return {
    addEvent: (name, kind, detail, nowMs, step = 0) => {
      const columns = 'run, atMs, step, kind, detail';
      run(`INSERT INTO event (${columns}) VALUES (?, ?, ?, ?, ?)`, name, nowMs, step, kind, detail);
      if (Number(one('SELECT last_insert_rowid() AS id')?.id) % PRUNE_EVERY === 0) prune(name);
    },
    history: (name, after, limit) =>
      many(
        'SELECT id, atMs, step, kind, detail FROM event WHERE run = ? AND id > ? ORDER BY id DESC LIMIT ?',
        ...[name, after, limit],
      )
        .map(eventRow)
        .reverse(),
    lastEventMs: (name, kind) => {
      const row = one('SELECT max(atMs) AS atMs FROM event WHERE run = ? AND kind = ?', name, kind);
      return typeof row?.atMs === 'number' ? row.atMs : null;
    },

    saveTraces: (name, traces) =>
      atomically(() => {
        for (const { step, epoch, bubble, spans } of traces)
          run('INSERT OR REPLACE INTO trace VALUES (?, ?, ?, ?, ?)', name, step, epoch, bubble, spans);
        const newest = traces.at(-1)?.step ?? 0;
        run('DELETE FROM trace WHERE run = ? AND step <= ?', name, newest - TRACES_KEPT);
      }),
    trace: (name, step) => {
      const row = one('SELECT * FROM trace WHERE run = ? AND step <= ? ORDER BY step DESC LIMIT 1', name, step);
      return row && traceRow(row);
    },
    traceRange: (name) => {
      const row = one('SELECT min(step) AS first, max(step) AS last FROM trace WHERE run = ?', name);
      return row === null || row.first === null ? null : [Number(row.first), Number(row.last)];
    },
    bubbles: (name, from) =>
      new Map(
        many('SELECT step, bubble FROM trace WHERE run = ? AND step >= ?', name, from).map((row) => [
          Number(row.step),
          Number(row.bubble),
        ]),
      ),

    checkpoints: (name) =>
      many('SELECT committedSteps, kept FROM checkpoint WHERE run = ? ORDER BY committedSteps', name).map((row) => ({
        committedSteps: Number(row.committedSteps),
        kept: row.kept === 1,
      })),
    formerCheckpoints: (name) =>
      many(
        'SELECT committedSteps, generation FROM formerCheckpoint WHERE run = ? ORDER BY generation, committedSteps',
        name,
      ).map((row) => ({ committedSteps: Number(row.committedSteps), generation: Number(row.generation) })),
    keepCheckpoint: (name, committedSteps, kept) =>
      run('UPDATE checkpoint SET kept = ? WHERE run = ? AND committedSteps = ?', kept ? 1 : 0, name, committedSteps),

    stepsSpread: (name, until, count) => {
      const every = Math.max(1, Math.ceil(until / count));
      // Each is looked up by its number: to go through all of them takes longer, the longer the run.
      const spread =
        'WITH RECURSIVE spread(at) AS (SELECT 0 UNION ALL SELECT at + ? FROM spread WHERE at + ? < ?) SELECT at FROM spread';
      return until > 0 ? records(`run = ? AND step IN (${spread})`, name, every, every, until) : [];
    },
    epoch: (name, epoch) => {
      const row = one('SELECT plan, reason FROM epoch WHERE run = ? AND epoch = ?', name, epoch);
      return row && { plan: String(row.plan), reason: String(row.reason) };
    },
    ledgerFrom: (name, from) =>
      many(
        'SELECT donor, sum(tokens) AS tokens FROM ledger WHERE run = ? AND step >= ? GROUP BY donor',
        name,
        from,
      ).map((row) => ({ peer: peerId(String(row.donor)), tokens: Number(row.tokens) })),
    alertLimits: (name) => setting(`${ALERT_LIMITS}${name}`),
    saveAlertLimits: (name, limits) => set(`${ALERT_LIMITS}${name}`, limits),
    card: (name) => setting(`${CARD}${name}`),
    saveCard: (name, card) => set(`${CARD}${name}`, card),
    queue: () => namesSchema.parse(JSON.parse(setting(QUEUE) ?? '[]')),
    saveQueue: (names) => set(QUEUE, JSON.stringify(names)),
    besideRuns: () => namesSchema.parse(JSON.parse(setting(BESIDE_SETTING) ?? '[]')),
    saveBesideRuns: (names) => set(BESIDE_SETTING, JSON.stringify(names)),
    siteInvite: () => setting(INVITE),
    saveSiteInvite: (invite) => set(INVITE, invite),
    texts: () =>
      many('SELECT key, value FROM setting WHERE key GLOB ? ORDER BY key', `${TEXT}*`).map(({ key, value }) => ({
        name: String(key).slice(TEXT.length),
        ...textSchema.parse(JSON.parse(String(value))),
      })),
    saveText: ({ name, ...text }) => set(`${TEXT}${name}`, JSON.stringify(text)),
    webhook: () => setting(WEBHOOK) || null,
    saveWebhook: (url) => set(WEBHOOK, url),
    toldAlerts: () => setting(TOLD_ALERTS),
    saveToldAlerts: (alerts) => set(TOLD_ALERTS, alerts),
    note: (name) => setting(`${NOTE}${name}`) ?? '',
    saveNote: (name, note) => set(`${NOTE}${name}`, note),
    sessions: () => setting(SESSIONS),
    saveSessions: (sessions) => set(SESSIONS, sessions),
    block: (address, note, nowMs) => run('INSERT OR REPLACE INTO block VALUES (?, ?, ?)', address, nowMs, note),
    unblock: (address) => run('DELETE FROM block WHERE address = ?', address),
    blocks: () =>
      many('SELECT address, atMs, note FROM block ORDER BY atMs DESC LIMIT 1000').map((row) => ({
        address: String(row.address),
        atMs: Number(row.atMs),
        note: String(row.note),
      })),
    isBlocked: (address) => one('SELECT 1 FROM block WHERE address = ?', address) !== null,
    saveSample: (name, { committedSteps, prompt, text }) =>
      atomically(() => {
        run('INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?)', name, committedSteps, prompt, text);
        run(
          'DELETE FROM sample WHERE run = ? AND committedSteps NOT IN (SELECT DISTINCT committedSteps FROM sample WHERE run = ? ORDER BY committedSteps DESC LIMIT ?)',
          ...[name, name, SAMPLED_CHECKPOINTS],
        );
      }),
    samples: (name) =>
      many('SELECT committedSteps, prompt, text FROM sample WHERE run = ? ORDER BY committedSteps, prompt', name).map(
        (row) => ({
          committedSteps: Number(row.committedSteps),
          prompt: String(row.prompt),
          text: String(row.text),
        }),
      ),
    createdAtMs: (name) => Number(one('SELECT createdAtMs FROM run WHERE name = ?', name)?.createdAtMs ?? 0),
  };
}
