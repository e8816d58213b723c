/**
 * A recording of a run's decisions, and whether they come out the same again. Each line is one event as the decisions got
 * it, its time, and digests of the state and the effects after it. It is written in two parts, before and after the event
 * is decided: whatever ends the process meanwhile, the event stands there. The first line, and one for each later start of
 * the server, is a `began`: with what the decisions begin anew.
 */
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../base.ts';
import type { StartState } from '../coordinator/events.ts';
import { begin, type DecisionState, decide } from '../decisions/decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from '../decisions/events.ts';
import { parseJson } from '../parseJson.ts';

/** Of the lines' form. */
const VERSION = 3;

/** `start`: what was read from the store. */
interface Began {
  readonly type: 'began';
  readonly version: number;
  readonly config: DecisionConfig;
  readonly start: StartState;
}

/** What came of an event. */
interface Outcome {
  readonly state: string;
  readonly effects: string;
  /** Of each field of the state that is another one, and of the effects of each type. */
  readonly parts: Readonly<Record<string, string>>;
}

export interface RecordedLine {
  /** Milliseconds, by the clock that the decisions were given. */
  readonly at: number;
  readonly event: Began | DecisionEvent;
  /** Null: the server ended while it was decided. */
  readonly outcome: Outcome | null;
}

/** What is told of one server's decisions: each event before it is decided, then what came of it. */
export interface Recording {
  began(config: DecisionConfig, start: StartState, at: number): void;
  event(event: DecisionEvent, at: number): void;
  decided(state: DecisionState, effects: readonly DecisionEffect[]): void;
}

/** `write` gets a line's two parts. */
export function recording(hash: Hash, write: (text: string) => void): Recording {
  const outcomeOf = outcomes(hash);
  const begin = (event: RecordedLine['event'], at: number) => write(JSON.stringify({ at, event }).slice(0, -1));
  return {
    began: (config, start, at) => begin({ type: 'began', version: VERSION, config, start }, at),
    event: begin,
    decided: (state, effects) => write(`,${JSON.stringify(outcomeOf(state, effects)).slice(1)}\n`),
  };
}

/** Of a part's digest: of 2^48 changes one would go unseen. */
const PART_LENGTH = 8;
/** Before the type of effects, among the names of a line's parts. */
const EFFECTS = 'effects ';

function outcomes(hash: Hash): (state: DecisionState | null, effects: readonly DecisionEffect[]) => Outcome {
  const digest = digester(hash);
  let before = new Map<string, unknown>();
  return (state, effects) => {
    const fields = new Map(state === null ? [] : fieldsOf(state));
    const parts = new Map([...fields].filter(([name, value]) => !before.has(name) || before.get(name) !== value));
    before = fields;
    // With their places: of two types each in its own order may still be in another one.
    for (const type of new Set(effects.map((effect) => effect.type)))
      parts.set(
        `${EFFECTS}${type}`,
        effects.map((effect) => (effect.type === type ? effect : null)),
      );
    const short = [...parts].map(([name, value]) => [name, digest(value).slice(0, PART_LENGTH)] as const);
    return { state: digest(state), effects: digest(effects), parts: Object.fromEntries(short) };
  };
}

/** Of several groups each field has the group's place before it. */
const fieldsOf = ({ groups, ...rest }: DecisionState): [name: string, value: unknown][] => {
  const halves = groups.flatMap((group, place) =>
    Object.entries(group).map(([half, fields]) => [groups.length > 1 ? `${place}.${half}` : half, fields] as const),
  );
  return [...halves, ...Object.entries(rest)].flatMap(([half, fields]) =>
    Object.entries(fields).map(([name, value]): [string, unknown] => [`${half}.${name}`, value]),
  );
};

export const EXPECTED = 'one JSON object with at, event, state and effects was expected';
const digestSchema = z.string().min(1);
const lineSchema = z
  .object({ at: z.number(), event: z.looseObject({ type: z.string() }) })
  .and(
    z.union([
      z.object({ state: digestSchema, effects: digestSchema, parts: z.record(z.string(), z.string()).default({}) }),
      z.object({ state: z.never().optional(), effects: z.never().optional() }),
    ]),
  );
const beganSchema = z.object({ config: z.object({ run: z.object({}), planning: z.object({}) }), start: z.object({}) });

/** One line of a file. What is inside the event is taken for our own words, as the decisions got it. */
export function parseLine(text: string, isFirst: boolean): Result<RecordedLine> {
  if (text.trim() === '') return refusal(`is empty: ${EXPECTED}`);
  const json = parseJson(text);
  if (!json.ok) return refusal(`is not valid JSON: ${EXPECTED}`);
  const line = lineSchema.safeParse(json.value);
  if (!line.success) return refusal(`is no line of a recording: ${EXPECTED}`);
  const { at, event, ...outcome } = line.data;
  if (isFirst && event.type !== 'began')
    return refusal(`begins with ${event.type}: the first line of a recording says what the run began with`);
  if (event.type === 'began' && event.version !== VERSION)
    return refusal(`is of version ${String(event.version)} of recordings: ${VERSION} was expected`);
  if (event.type === 'began' && !beganSchema.safeParse(event).success)
    return refusal('says nothing that a run can begin with: its config and its start were expected');
  const read = { at, event, outcome: outcome.state === undefined ? null : outcome };
  return success(read as unknown as RecordedLine); // written by `recording`
}

/** The whole line that begins a recording's last one: its event, which nothing came of; null: not even that is whole. */
export function undecided(text: string): string | null {
  const line = `${text}}`;
  return parseLine(line, false).ok ? line : null;
}

/** An event of a recording, as people are told of it. */
export interface NamedEvent {
  /** Counted from 1, as the lines of the file. */
  readonly event: number;
  readonly type: string;
  readonly at: number;
}

/** What came otherwise than it was recorded. */
export interface Difference extends NamedEvent {
  readonly in: 'state' | 'effects';
  /** Fields of the state, or types of effects; none: the recording has no digests of them that differ. */
  readonly parts: readonly string[];
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

/** Feeds the events to the decisions again, until one comes out otherwise. `undecided` is told before it is decided. */
export async function replay(
  lines: AsyncIterable<RecordedLine> | Iterable<RecordedLine>,
  hash: Hash,
  undecided: (event: NamedEvent) => void = () => {},
): Promise<Replay> {
  const outcomeOf = outcomes(hash);
  const [recordedParts, cameParts] = [new Map<string, string>(), new Map<string, string>()];
  const threw: { event: number; message: string }[] = [];
  let [events, effects] = [0, 0];
  let state: DecisionState | null = null;
  for await (const { at, event, outcome: recorded } of lines) {
    events++;
    const named = { event: events, type: event.type, at };
    if (recorded === null) undecided(named);
    let asked: readonly DecisionEffect[] = [];
    try {
      if (event.type === 'began') state = begin(event.config, event.start);
      else if (state !== null) [state, asked] = decide(state, event, at);
    } catch (error) {
      threw.push({ event: events, message: error instanceof Error ? error.message : String(error) });
    }
    effects += asked.length;
    const came = outcomeOf(state, asked);
    remember(cameParts, came);
    if (recorded === null) continue;
    remember(recordedParts, recorded);
    const where = (['state', 'effects'] as const).find((half) => came[half] !== recorded[half]);
    if (where === undefined) continue;
    const names = [...new Set([...recordedParts.keys(), ...cameParts.keys()])];
    const parts = names
      .filter((name) => isOfEffects(name) === (where === 'effects') && recordedParts.get(name) !== cameParts.get(name))
      .map((name) => (isOfEffects(name) ? name.slice(EFFECTS.length) : name));
    const difference = { ...named, in: where, parts, recorded: recorded[where], came: came[where] };
    return { events, effects, threw, difference };
  }
  return { events, effects, threw, difference: null };
}

const isOfEffects = (name: string): boolean => name.startsWith(EFFECTS);

/** Fields of the state stay as they are until another line has them; effects are one line's. */
function remember(known: Map<string, string>, { parts }: Outcome): void {
  for (const name of [...known.keys()].filter(isOfEffects)) known.delete(name);
  for (const [name, digest] of Object.entries(parts)) known.set(name, digest);
}

type Hash = (text: string) => string;

/** The text of a smaller part stands as it is: to make it again costs less than to remember it. */
const LONGEST_PLAIN_TEXT = 256;

/**
 * A short text for a value of plain data (numbers, strings, booleans, null, undefined, arrays and plain objects): equal
 * values have equal digests, in every process. A property that is undefined is as one that is absent, -0 is 0, and the order
 * of an object's properties counts for nothing. Each large part is hashed by itself and remembered as long as it lives, so
 * that the digest of a state costs what has changed in it since the last one: whatever is digested must never be changed in
 * place.
 */
export function digester(hash: Hash): (value: unknown) => string {
  const known = new WeakMap<object, string>();
  const textOf = (value: unknown): string => {
    if (typeof value === 'string') return JSON.stringify(value);
    if (typeof value === 'object' && value !== null) return partText(value);
    invariant(typeof value !== 'function' && typeof value !== 'symbol', 'what is digested is plain data');
    return String(value);
  };
  const partText = (part: object): string => {
    const before = known.get(part);
    if (before !== undefined) return before;
    const text = wholeText(part);
    if (text.length <= LONGEST_PLAIN_TEXT) return text;
    const short = `#${hash(text)}`;
    known.set(part, short);
    return short;
  };
  const wholeText = (part: object): string => {
    if (Array.isArray(part)) return `[${part.map(textOf).join()}]`;
    invariant(Object.getPrototypeOf(part) === Object.prototype, 'what is digested is plain data');
    const fields = Object.entries(part).filter(([, value]) => value !== undefined);
    fields.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, value]) => `${JSON.stringify(key)}:${textOf(value)}`).join()}}`;
  };
  return (value) => hash(textOf(value));
}
