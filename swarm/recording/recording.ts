/**
 * A recording of a run's decisions, and whether they come out the same again. Each line is one event as the decisions got
 * it, its time, and digests of the state and the effects after it. The first line, and one for each later start of the
 * server, is a `began`: with what the decisions begin anew. Rules RC in SPEC.md.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import type { StartState } from '../coordinator/events.ts';
import {
  begin,
  type DecisionConfig,
  type DecisionEffect,
  type DecisionEvent,
  type DecisionState,
  decide,
} from '../decisions/decide.ts';
import { digester, type Hash } from './digest.ts';

/** Of the lines' form. */
const VERSION = 1;

/** `start`: what was read from the store. */
interface Began {
  readonly type: 'began';
  readonly version: number;
  readonly config: DecisionConfig;
  readonly start: StartState;
}

export interface RecordedLine {
  /** Milliseconds, by the clock that the decisions were given. */
  readonly at: number;
  readonly event: Began | DecisionEvent;
  readonly state: string;
  readonly effects: string;
}

/** What is told of one server's decisions, after each event. */
export interface Recording<Line> {
  began(config: DecisionConfig, start: StartState, state: DecisionState, at: number): Line;
  decided(event: DecisionEvent, state: DecisionState, effects: readonly DecisionEffect[], at: number): Line;
}

export function recording(hash: Hash): Recording<string> {
  const digest = digester(hash);
  const lineOf = (
    at: number,
    event: RecordedLine['event'],
    state: DecisionState,
    effects: readonly DecisionEffect[],
  ) => {
    const line: RecordedLine = { at, event, state: digest(state), effects: digest(effects) };
    return `${JSON.stringify(line)}\n`;
  };
  return {
    began: (config, start, state, at) => lineOf(at, { type: 'began', version: VERSION, config, start }, state, []),
    decided: (event, state, effects, at) => lineOf(at, event, state, effects),
  };
}

const lineSchema = z.object({
  at: z.number(),
  event: z.looseObject({ type: z.string() }),
  state: z.string().min(1),
  effects: z.string().min(1),
});

/** One line of a file. What is inside the event is taken for our own words, as the decisions got it. */
export function parseLine(text: string, isFirst: boolean): Result<RecordedLine> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return refusal('is no JSON');
  }
  const line = lineSchema.safeParse(json);
  if (!line.success) return refusal('is no line of a recording: at, event, state and effects were expected');
  const { event } = line.data;
  if (isFirst && event.type !== 'began')
    return refusal(`begins with ${event.type}: the first line of a recording says what the run began with`);
  if (event.type === 'began' && event.version !== VERSION)
    return refusal(`is of version ${String(event.version)} of recordings: ${VERSION} was expected`);
  return success(line.data as unknown as RecordedLine); // written by `recording`
}

/** What came otherwise than it was recorded. */
export interface Difference {
  /** Counted from 1, as the lines of the file. */
  readonly event: number;
  readonly type: string;
  readonly at: number;
  readonly in: 'state' | 'effects';
  readonly recorded: string;
  readonly came: string;
}

interface Replay {
  readonly events: number;
  readonly effects: number;
  /** The first one; null: all equal. */
  readonly difference: Difference | null;
  /** Events over which the decisions threw, as they did when they were recorded: such an event changes nothing. */
  readonly threw: readonly { readonly event: number; readonly message: string }[];
}

/** Feeds the events to the decisions again, until one comes out otherwise. */
export async function replay(lines: AsyncIterable<RecordedLine> | Iterable<RecordedLine>, hash: Hash): Promise<Replay> {
  const digest = digester(hash);
  const threw: { event: number; message: string }[] = [];
  let [events, effects] = [0, 0];
  let state: DecisionState | null = null;
  for await (const { at, event, ...recorded } of lines) {
    events++;
    let asked: readonly DecisionEffect[] = [];
    try {
      if (event.type === 'began') state = begin(event.config, event.start);
      else if (state !== null) [state, asked] = decide(state, event, at);
    } catch (error) {
      threw.push({ event: events, message: error instanceof Error ? error.message : String(error) });
    }
    effects += asked.length;
    const came = { state: digest(state), effects: digest(asked) };
    for (const part of ['state', 'effects'] as const) {
      if (came[part] === recorded[part]) continue;
      const where = { event: events, type: event.type, at, in: part };
      return { events, effects, threw, difference: { ...where, recorded: recorded[part], came: came[part] } };
    }
  }
  return { events, effects, threw, difference: null };
}
