/**
 * What this browser gave, run by run and day by day, kept on this computer alone. Pure. Only tokens that the server has
 * counted, those of committed steps, are in it; the server knows credit of those alone who chose a name.
 */
import { z } from 'zod';
import type { TodayPlace } from '../../../swarm/messages/leaderboard.ts';
import { countText } from '../page/format.ts';

const runs = z
  .array(
    z.object({
      run: z.string().max(200),
      tokens: z.number().min(0),
      /** Tokens that the run had committed in all, as last seen. */
      runTokens: z.number().min(0),
      firstDay: z.iso.date(),
      lastDay: z.iso.date(),
    }),
  )
  .max(1_000);
const DAYS_KEPT = 400;
const daySchema = z.object({ day: z.iso.date(), tokens: z.number().min(0) });
export type Day = Readonly<z.infer<typeof daySchema>>;

const creditSchema = z.object({ version: z.literal(2), runs, days: z.array(daySchema).max(DAYS_KEPT) });
export type Credit = z.infer<typeof creditSchema>;
/** What a page of version 1 kept. */
const earlierSchema = z
  .object({ version: z.literal(1), runs })
  .transform((kept): Credit => ({ version: 2, runs: kept.runs, days: [] }));

export const NO_CREDIT: Credit = { version: 2, runs: [], days: [] };

export const creditText = (credit: Credit): string => JSON.stringify(credit, null, 2);

export function creditOf(text: string | null): Credit {
  try {
    return z.union([creditSchema, earlierSchema]).parse(JSON.parse(text ?? ''));
  } catch {
    return NO_CREDIT;
  }
}

interface Earned {
  readonly run: string;
  /** Since the last time; less than none where the run went back to a checkpoint. */
  readonly tokens: number;
  readonly runTokens: number;
  readonly day: string;
}

/**
 * A run that has less in all than is recorded for this browser went back to a checkpoint while nobody here looked, as where its
 * only donor reloads the page: what it has not any more is nobody's. With less than half of what it had when last seen it
 * has begun anew under its old name.
 */
export function credited(credit: Credit, { run, tokens, runTokens, day }: Earned): Credit {
  const known = credit.runs.find((entry) => entry.run === run);
  const isSameRun = known !== undefined && (known.tokens + tokens <= runTokens || 2 * runTokens > known.runTokens);
  const before = isSameRun ? Math.min(known.tokens, Math.max(0, runTokens - tokens)) : 0;
  const lost = isSameRun ? known.tokens - before : 0;
  const total = Math.max(0, before + tokens);
  const entry = { run, tokens: total, runTokens, firstDay: isSameRun ? known.firstDay : day, lastDay: day };
  return {
    ...credit,
    runs: [...credit.runs.filter((other) => other !== known), entry],
    days: onDay(credit.days, day, tokens - lost),
  };
}

/** In the order of the days; what a roll-back takes is taken from today. */
function onDay(days: readonly Day[], day: string, tokens: number): Day[] {
  const before = days.find((each) => each.day === day)?.tokens ?? 0;
  const others = days.filter((each) => each.day !== day);
  const all = [...others, { day, tokens: Math.max(0, before + tokens) }];
  return all.toSorted((a, b) => (a.day < b.day ? -1 : 1)).slice(-DAYS_KEPT);
}

const DAY_MS = 86_400_000;

/** So many days up to this one, oldest first, those without work too. */
export function lastDays(days: readonly Day[], today: string, count: number): Day[] {
  const given = new Map(days.map(({ day, tokens }) => [day, tokens]));
  const end = Date.parse(`${today}T00:00:00Z`);
  return Array.from({ length: count }, (_, at) => {
    const day = new Date(end - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10);
    return { day, tokens: given.get(day) ?? 0 };
  });
}

export function share({ tokens, runTokens }: { readonly tokens: number; readonly runTokens: number }): number | null {
  return runTokens > 0 ? Math.min(1, tokens / runTokens) : null;
}

/** Of a donor's place among those who trained today. */
export function placeSentence({ place, donors, tokens }: TodayPlace): string {
  if (place === null) return 'None of your steps is done yet today.';
  const given = `${countText(tokens)} ${tokens === 1 ? 'token' : 'tokens'}`;
  if (donors === 1) return `Nobody else has trained today: ${given}, all yours.`;
  return `Number ${place} of ${donors} donors today, with ${given} in this visit.`;
}
