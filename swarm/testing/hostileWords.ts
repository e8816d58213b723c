/**
 * Words of a donor that the schema of messages allows, and that mean nothing good: of every type and with every field
 * that there is, numbers at their bounds, names of others, epochs and steps around those in force. Whatever field is added
 * to a message is in them.
 */
import { z } from 'zod';
import { arrayOf, below, type Random } from '../base.ts';
import { decodePeerMessage, peerMessageSchema } from '../messages/messages.ts';
import { pick } from './chaosWords.ts';

/** What of the run a stranger may know. */
interface Known {
  readonly peers: readonly string[];
  readonly epoch: number;
  readonly step: number;
}

/** The part of JSON Schema that Zod writes for messages. */
interface Schema {
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema | false;
  readonly prefixItems?: readonly Schema[];
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

const SCHEMA = z.toJSONSchema(peerMessageSchema, { io: 'input', unrepresentable: 'any' }) as Schema;
const WORDS = SCHEMA.oneOf ?? [];

/** Beside numbers at their bounds: what is at the edges of what machines count with. */
const EDGES = [0, -0, 1, -1, 0.5, 1e-308, 5e-324, 1e300, 1.7e308, 2 ** 31, 2 ** 32 - 1, 2 ** 53 - 1];
const STRINGS = [
  '',
  '__proto__',
  'constructor',
  '\u0000',
  '\u202e',
  '🐢',
  '<script>',
  '../../etc/passwd',
  "'; DROP TABLE step",
];
const LONGEST_LIST = 6;
const LONGEST_TEXT = 300;

/** As JSON that the schema allows: parts that do not go together are drawn again. */
export function hostileWord(random: Random, known: Known): string {
  for (;;) {
    const text = JSON.stringify(draw(random, known, pick(random, WORDS), ''));
    if (decodePeerMessage(text).ok) return text;
  }
}

function draw(random: Random, known: Known, schema: Schema, name: string): unknown {
  const { anyOf, oneOf, enum: values, prefixItems, items } = schema;
  const either = anyOf ?? oneOf;
  if (either) return draw(random, known, pick(random, either), name);
  if (schema.const !== undefined) return schema.const;
  if (values) return pick(random, values);
  switch (schema.type) {
    case 'object':
      return fieldsOf(random, known, schema);
    case 'array':
      if (prefixItems) return prefixItems.map((item) => draw(random, known, item, name));
      if (!items) return [];
      return arrayOf(below(random, 1 + Math.min(schema.maxItems ?? LONGEST_LIST, LONGEST_LIST)), () =>
        draw(random, known, items, name),
      );
    case 'integer':
    case 'number':
      return numberOf(random, known, schema, name);
    case 'boolean':
      return random() < 0.5;
    case 'null':
      return null;
    default:
      return textOf(random, known, schema, name);
  }
}

function fieldsOf(random: Random, known: Known, { properties = {}, required = [] }: Schema): unknown {
  const there = Object.entries(properties).filter(([name]) => required.includes(name) || random() < 0.5);
  return Object.fromEntries(there.map(([name, field]) => [name, draw(random, known, field, name)]));
}

function numberOf(random: Random, known: Known, schema: Schema, name: string): number {
  const { minimum = schema.exclusiveMinimum ?? -1.7e308, maximum = 1.7e308, type } = schema;
  const near = name === 'epoch' ? known.epoch : name === 'step' ? known.step : null;
  const drawn =
    near !== null && random() < 0.8
      ? near + below(random, 7) - 3
      : pick(random, [minimum, maximum, minimum + random() * Math.min(maximum - minimum, 1e6), pick(random, EDGES)]);
  const bounded = Math.min(maximum, Math.max(minimum, type === 'integer' ? Math.round(drawn) : drawn));
  return bounded === schema.exclusiveMinimum ? Math.min(maximum, 1) : bounded;
}

function textOf(
  random: Random,
  known: Known,
  { pattern, minLength = 0, maxLength = LONGEST_TEXT }: Schema,
  name: string,
): string {
  if (pattern !== undefined) return patterned(random, pattern);
  if (['to', 'peer', 'about', 'from'].includes(name) && random() < 0.8) return pick(random, known.peers);
  const text = random() < 0.1 ? 'x'.repeat(maxLength) : pick(random, STRINGS).slice(0, maxLength);
  return text.padEnd(minLength, 'x');
}

/** The forms that fields of messages have. */
function patterned(random: Random, pattern: string): string {
  if (pattern.includes('layer')) return pick(random, ['embedding', 'head', 'layer.0', 'layer.1', 'layer.999999']);
  if (pattern.includes('a-f')) return pick(random, '0123456789abcdef'.split('')).repeat(64);
  return pick(random, ['a-key-of-a-browser', 'another-key-of-another']);
}
