/**
 * A run file as `shoal plan` reads it: also one that asks for what can be planned and not yet run, islands of
 * `"count": "auto"` and `"wire": "auto"`. Everything else of it must be as in any run file.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import { fields, number, sentence } from '../model/inputFields.ts';
import { parseRunFile, type RunFile } from '../run/runFile.ts';
import { WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';
import type { IslandsAsked } from './islandPlan.ts';

export interface PlannedRun {
  /** What of it can be run: with `auto` neither islands nor a packed stream. */
  readonly run: RunFile;
  readonly islands: IslandsAsked | null;
  /** What its stream may be written as, the most exact first. */
  readonly wires: readonly WireEncoding[];
}

const ROUND_SECONDS = 300;
/** A day: donors leave before. */
const MOST_ROUND_SECONDS = 86_400;
/** Islands come and go with their donors, so that the outer step is a careful one, and what is published small. */
const AUTO_OUTER = { learningRate: 1, momentum: 0.5 };
const AUTO_PUBLISH = 'int8';

const record = z.record(z.string(), z.unknown());
const autoWire = z.looseObject({ precision: z.looseObject({ wire: z.literal('auto') }) });
const autoIslands = z.looseObject({ train: z.looseObject({ islands: z.looseObject({ count: z.literal('auto') }) }) });
const timedIslands = z.looseObject({
  train: z.looseObject({
    islands: z.looseObject({ roundSeconds: z.unknown().refine((value) => value !== undefined) }),
  }),
});
const seconds = number(
  `a number above 0, at most ${MOST_ROUND_SECONDS}`,
  (value) => value > 0 && value <= MOST_ROUND_SECONDS,
);
const roundSeconds = fields({ 'train.islands.roundSeconds': seconds.default(ROUND_SECONDS) });
const AUTO_FIELDS = ['count', 'roundSeconds', 'outer', 'exchange', 'publish', 'overlap'];

export function parsePlannedRun(json: unknown, fileName: string): Result<PlannedRun> {
  const packed = autoWire.safeParse(json);
  const grouped = autoIslands.safeParse(json);
  const misfit = grouped.success ? autoMisfit(grouped.data.train.islands) : countMisfit(json);
  if (misfit !== null) return refusal(`${fileName}: train.islands.${misfit}`);
  const given = grouped.success ? grouped.data.train.islands.roundSeconds : undefined;
  const rounds = roundSeconds.safeParse({ 'train.islands.roundSeconds': given });
  if (!rounds.success) return refusal(`${fileName}: ${sentence(rounds.error.issues[0], 'the run file')}`);
  const known = grouped.success ? withCount(grouped.data) : json;
  const parsed = parseRunFile(packed.success ? withPlainWire(record.parse(known)) : known, fileName);
  if (!parsed.ok) return parsed;
  const { islands, ...train } = parsed.value.train;
  const wires = packed.success ? WIRE_ENCODINGS : ([parsed.value.precision.wire] as const);
  const asked = islands && {
    ...{ outer: islands.outer, exchange: islands.exchange, publish: islands.publish, wires },
    rounds: grouped.success
      ? ({ count: 'auto', roundSeconds: rounds.data['train.islands.roundSeconds'] } as const)
      : { count: islands.count, innerSteps: islands.innerSteps },
  };
  return success({ run: { ...parsed.value, train }, islands: asked ?? null, wires });
}

const withPlainWire = (file: Record<string, unknown>) => {
  const { wire: _, ...precision } = record.parse(file.precision);
  return { ...file, precision };
};

function autoMisfit(islands: Record<string, unknown>): string | null {
  if ('innerSteps' in islands)
    return 'innerSteps does not go with count "auto": roundSeconds says there how long a round is';
  const unknown = Object.keys(islands).find((name) => !AUTO_FIELDS.includes(name));
  return unknown === undefined
    ? null
    : `${unknown.slice(0, 60)} is unknown: with count "auto" expected one of ${AUTO_FIELDS.join(', ')}`;
}

const countMisfit = (json: unknown): string | null =>
  timedIslands.safeParse(json).success
    ? 'roundSeconds goes only with count "auto": with a number of islands innerSteps says how long a round is'
    : null;

/** In the form of a fixed number of islands, which has the same fields beside. */
function withCount(file: z.output<typeof autoIslands>) {
  const { roundSeconds: _, outer, publish = AUTO_PUBLISH, ...rest } = file.train.islands;
  const given = record.safeParse(outer);
  const full = outer === undefined || given.success ? { ...AUTO_OUTER, ...given.data } : outer;
  const islands = { ...rest, outer: full, publish, count: 1, innerSteps: 1 };
  return { ...file, train: { ...file.train, islands } };
}
