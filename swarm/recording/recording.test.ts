import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrayOf, at, invariant } from '../base.ts';
import type { DecisionEvent } from '../decisions/events.ts';
import { playChaos } from '../testing/chaos.ts';
import { digester, EXPECTED, parseLine, type RecordedLine, recording, replay, undecided } from './recording.ts';

const hash = (text: string): string => createHash('sha256').update(text).digest('base64');

/** The lines of one play of chance, and how often the server began. */
function played(seed: number): { readonly lines: readonly string[]; readonly begun: number } {
  let text = '';
  let begun = 0;
  const { began, event, decided } = recording(hash, (part) => {
    text += part;
  });
  playChaos(seed, 400, seed % 2 === 0 ? 'auto' : 'wishes', {
    began: (...facts) => {
      begun++;
      began(...facts);
    },
    ...{ event, decided },
  });
  return { lines: text.split('\n').slice(0, -1), begun };
}

const read = (lines: readonly string[]): RecordedLine[] =>
  lines.map((text, index) => {
    const line = parseLine(text, index === 0);
    if (!line.ok) throw new Error(line.reason);
    return line.value;
  });

describe('a recording', () => {
  test('of chance comes out the same again, over restarts of the server too', async () => {
    const seeds = [3, 4, 5, 6, 7, 8, 9, 10];
    let restarts = 0;
    for (const seed of seeds) {
      const { lines, begun } = played(seed);
      const all = read(lines);
      restarts += begun - 1 + all.filter(({ event }) => event.type === 'restarted').length;
      const { difference, events, effects, threw } = await replay(all, hash);
      expect({ seed, difference, events, threw }).toEqual({ seed, difference: null, events: lines.length, threw: [] });
      expect(effects).toBeGreaterThan(events / 10);
    }
    expect(restarts).toBeGreaterThan(2);
  });

  test('an event that is another one is found where it is, with what of the state it changed', async () => {
    const lines = read(played(4).lines);
    const place = lines.findLastIndex(({ event }) => event.type === 'donorJoined');
    const line = at(lines, place);
    const event = structuredClone(line.event) as Extract<DecisionEvent, { type: 'donorJoined' }>;
    const other = { ...event, adapter: { ...event.adapter, vendor: 'another' } };
    const { difference, events } = await replay(lines.with(place, { ...line, event: other }), hash);
    expect(events).toBe(place + 1);
    const where = { event: place + 1, type: 'donorJoined', at: line.at, in: 'state', recorded: line.outcome?.state };
    expect(difference).toEqual({ ...where, parts: ['coordinator.donors'], came: expect.any(String) });
    expect(difference?.came).not.toBe(line.outcome?.state);
  });

  test('a digest of effects that is another one is found, with their type where that has one too', async () => {
    const lines = read(played(4).lines);
    const place = lines.findIndex(({ outcome }) => outcome?.parts['effects send'] !== undefined);
    const line = at(lines, place);
    const outcome = line.outcome ?? { state: '', effects: '', parts: {} };
    const differs = async (changed: Partial<typeof outcome>) =>
      (await replay(lines.with(place, { ...line, outcome: { ...outcome, ...changed } }), hash)).difference;
    const where = { event: place + 1, in: 'effects', recorded: 'x', came: outcome.effects };
    expect(await differs({ effects: 'x' })).toMatchObject({ ...where, parts: [] });
    const parts = { ...outcome.parts, 'effects send': 'x' };
    expect(await differs({ effects: 'x', parts })).toMatchObject({ ...where, parts: ['send'] });
  });

  test('an event stands there before it is decided; one that did not end is told before it is decided again', async () => {
    let text = '';
    const { began, event, decided } = recording(hash, (part) => {
      text += part;
    });
    playChaos(4, 60, 'auto', {
      began,
      event: (...facts) => {
        event(...facts);
        expect(undecided(text.slice(text.lastIndexOf('\n') + 1))).toContain(`"type":"${facts[0].type}"`);
      },
      decided,
    });
    const all = text.split('\n').slice(0, -1);
    const cut = all.slice(0, 30);
    const last = undecided((cut.pop() ?? '').replace(/,"state":.*/, ''));
    invariant(last !== null, 'its event is whole');
    const told: string[] = [];
    const { difference, events } = await replay(read([...cut, last, at(all, 0)]), hash, ({ event, type }) =>
      told.push(`${event} ${type}`),
    );
    expect({ difference, events, told }).toEqual({
      difference: null,
      events: 31,
      told: [`30 ${at(read(all), 29).event.type}`],
    });
    expect(undecided('{"at":1,"event":{"type":"donor')).toBeNull();
  });

  test('an event that the decisions throw over changes nothing, and is told', async () => {
    const lines = read(played(4).lines).slice(0, 10);
    const last = at(lines, 9);
    const outcome = last.outcome && { ...last.outcome, effects: hash('[]') };
    const broken = { ...last, event: { type: 'sentBack' } as DecisionEvent, outcome };
    const { difference, threw } = await replay([...lines, broken], hash);
    expect(difference).toBeNull();
    expect(threw).toEqual([{ event: 11, message: expect.any(String) }]);
  });

  test('what is no recording is refused in a sentence', () => {
    const first = at(played(4).lines, 0);
    expect(parseLine(first, true).ok).toBe(true);
    const refused = (text: string, isFirst = true) => {
      const line = parseLine(text, isFirst);
      return line.ok ? null : line.reason;
    };
    expect(refused('not JSON')).toBe(`is not valid JSON: ${EXPECTED}`);
    expect(refused('  ')).toBe(`is empty: ${EXPECTED}`);
    expect(refused('{"at":1}')).toMatch(/^is no line of a recording/);
    expect(refused(first.replace('"version":3', '"version":1'))).toMatch(/^is of version 1 of recordings/);
    const other = '{"at":1,"event":{"type":"donorGone"},"state":"a","effects":"b"}';
    expect(refused(other)).toMatch(/^begins with donorGone/);
    expect(refused(other, false)).toBeNull();
    const hollow = '{"at":1,"event":{"type":"began","version":3},"state":"a","effects":"b"}';
    expect(refused(hollow)).toMatch(/^says nothing that a run can begin with/);
    expect(refused('{"at":1,"event":{"type":"donorGone"},"state":"a"}', false)).toMatch(/^is no line/);
  });
});

describe('digester', () => {
  const digestOf = (value: unknown): string => digester(hash)(value);

  test('values that differ anywhere have other digests', () => {
    const values = [
      ...[0, 1, '0', 'a', '', true, null, undefined, Number.NaN, Infinity, -Infinity],
      ...[[], {}, [1], ['1'], [[1]], [1, 2], [12], { 1: 2 }, [undefined], [null]],
      ...[{ a: 1 }, { a: null }, { a: undefined, b: 1 }, { a: '1,"b":2' }, { a: 1, b: 2 }],
    ];
    expect(new Set(values.map(digestOf)).size).toBe(values.length);
  });

  test('what is no plain data has none', () => {
    for (const value of [new Map(), new Set(), new Date(), () => 1])
      expect(() => digestOf({ value })).toThrow('plain data');
  });

  test('neither the order of properties, nor one that is undefined, nor the sign of 0 counts', () => {
    expect(digestOf({ a: 1, b: [{ c: 2, d: undefined }] })).toBe(digestOf({ b: [{ c: 2 }], a: 1 }));
    expect(digestOf([-0])).toBe(digestOf([0]));
  });

  test('what JSON has carried has the digest that it had, and what is remembered changes none', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (values) => {
        const remembers = digester(hash);
        const before = remembers(values);
        expect(remembers([values, values])).toBe(digestOf(JSON.parse(JSON.stringify([values, values]))));
        expect(remembers(values)).toBe(before);
        expect(before).toBe(digestOf(values));
      }),
    );
  });

  test('a part that has not changed is not looked at again', () => {
    const hashed: string[] = [];
    const digest = digester((text) => {
      hashed.push(text);
      return hash(text);
    });
    const large = { peers: arrayOf(1_000, (index) => `peer ${index}`) };
    digest({ large, step: 1 });
    const length = hashed.splice(0).join('').length;
    digest({ large, step: 2 });
    expect(length).toBeGreaterThan(10_000);
    expect(hashed.join('').length).toBeLessThan(300);
  });
});
