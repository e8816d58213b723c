/**
 * On what a person lets this tab compute: hours, mains power, nobody at the computer, the tab on screen, traffic of the
 * day. Pure: what is seen of the surroundings and what was counted goes in, the condition that does not hold comes out.
 */
import { z } from 'zod';
import type { Hours, Preferences } from './preferences.ts';

export interface Surroundings {
  /** The tab is not on screen. */
  readonly hidden: boolean;
  /** unknown: this browser does not say. */
  readonly power: 'mains' | 'battery' | 'unknown';
  readonly isPersonHere: boolean;
  /** tab: the browser says nothing of the computer, only what is done in this tab is seen. */
  readonly personSeenBy: 'system' | 'tab';
  /** By this computer's clock. */
  readonly minuteOfDay: number;
  /** `2026-11-21`. */
  readonly day: string;
}

export const UNKNOWN_SURROUNDINGS: Surroundings = {
  ...{ hidden: false, power: 'unknown', isPersonHere: false, personSeenBy: 'tab', minuteOfDay: 0, day: '' },
};

/** After so much time without a hand on it a computer counts as left. */
export const AWAY_MINUTES = 3;

const bytes = z.number().min(0);
const dayTrafficSchema = z.object({ day: z.string(), sentBytes: bytes, receivedBytes: bytes });
/** Sent and received under the limits of one day. */
export type DayTraffic = Readonly<z.infer<typeof dayTrafficSchema>>;

/** By a worker since it began. */
export interface Moved {
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

export const NO_TRAFFIC: DayTraffic = { day: '', sentBytes: 0, receivedBytes: 0 };

/** Days that a browser keeps: a clock that is set forward and back again comes back to one of them. */
const DAYS_KEPT = 7;
/** What was kept first was one day alone. */
const keptSchema = z.union([
  z.array(dayTrafficSchema).max(2 * DAYS_KEPT),
  dayTrafficSchema.transform((one): DayTraffic[] => [one]),
]);

function keptDays(text: string | null): readonly DayTraffic[] {
  try {
    return keptSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return []; // as if there were nothing
  }
}

/**
 * What a browser kept of this day. Days after it have not been: what was counted for them was moved before the clock was set
 * back, and counts today.
 */
export function dayTrafficOf(text: string | null, day: string): DayTraffic {
  const moved = keptDays(text).filter((kept) => kept.day >= day);
  const sum = (part: 'sentBytes' | 'receivedBytes'): number => moved.reduce((all, kept) => all + kept[part], 0);
  return { day, sentBytes: sum('sentBytes'), receivedBytes: sum('receivedBytes') };
}

/** To be kept in its place, with the days before it. */
export const keptText = (text: string | null, today: DayTraffic): string =>
  JSON.stringify([...keptDays(text).filter(({ day }) => day < today.day), today].slice(-DAYS_KEPT));

/** From here on the step is finished and the part handed over, which takes traffic too; at the cap itself all ends. */
const DAY_SHARE = 0.93;
/** From here on nothing is sent that the run does not need. */
const NEEDED_SHARE = 0.8;

export type Condition = 'hours' | 'battery' | 'person' | 'hidden' | 'upload' | 'download';

const isWithin = ({ from, to }: Hours, minute: number): boolean =>
  from <= to ? minute >= from && minute < to : minute >= from || minute < to;

/** The caps of the day that are used up to this share. */
function spent(preferences: Preferences, { sentBytes, receivedBytes }: DayTraffic, part: number): Condition | null {
  const { uploadBytesPerDay: upload, downloadBytesPerDay: download } = preferences;
  if (upload !== null && sentBytes >= upload * part) return 'upload';
  return download !== null && receivedBytes >= download * part ? 'download' : null;
}

/** The first condition of the person's that does not hold; null: all hold. */
export function unmet(preferences: Preferences, surroundings: Surroundings, today: DayTraffic): Condition | null {
  const { hours, onlyMains, onlyIdle, onlyVisible } = preferences;
  const { minuteOfDay, power, isPersonHere, hidden } = surroundings;
  if (hours && hours.from !== hours.to && !isWithin(hours, minuteOfDay)) return 'hours';
  if (onlyMains && power === 'battery') return 'battery';
  if (onlyIdle && isPersonHere) return 'person';
  if (onlyVisible && hidden) return 'hidden';
  return spent(preferences, today, DAY_SHARE);
}

/** What is left of the day is for the run's own traffic. */
export const isNearlyUsedUp = (preferences: Preferences, today: DayTraffic): boolean =>
  spent(preferences, today, NEEDED_SHARE) !== null;

/** No byte more today: not even to hand a part over. */
export const isUsedUp = (preferences: Preferences, today: DayTraffic): boolean => spent(preferences, today, 1) !== null;

/** What a worker has moved beyond what it had before; a new worker counts from nothing. */
export function counted(today: DayTraffic, before: Moved | null, now: Moved): DayTraffic {
  const isSame = before !== null && now.bytesSent >= before.bytesSent && now.bytesReceived >= before.bytesReceived;
  const sent = now.bytesSent - (isSame ? before.bytesSent : 0);
  const received = now.bytesReceived - (isSame ? before.bytesReceived : 0);
  if (sent === 0 && received === 0) return today;
  return { ...today, sentBytes: today.sentBytes + sent, receivedBytes: today.receivedBytes + received };
}

/** `07:05`. */
export const clockText = (minute: number): string =>
  `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;

/** Of `07:05`; null: no time of day. */
export function minuteOf(text: string): number | null {
  const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)/.exec(text) ?? [];
  return hours === undefined ? null : Number(hours) * 60 + Number(minutes);
}

/** The day by this computer's clock, not the sun's over Greenwich. */
export function dayOf(at: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}
