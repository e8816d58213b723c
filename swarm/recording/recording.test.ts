import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { at } from '../base.ts';
import type { DecisionEvent } from '../decisions/decide.ts';
import { playChaos } from '../testing/chaos.ts';
import { parseLine, type RecordedLine, recording, replay } from './recording.ts';

const hash = (text: string): string => createHash('sha256').update(text).digest('base64');

/** The lines of one play of chance, and how often the server began. */
function played(seed: number): { readonly lines: readonly string[]; readonly begun: number } {
  const lines: string[] = [];
  let begun = 0;
  const { began, decided } = recording(hash);
  playChaos(seed, 400, seed % 2 === 0 ? 'auto' : 'wishes', {
    began: (...facts) => {
      begun++;
      lines.push(began(...facts));
    },
    decided: (...facts) => void lines.push(decided(...facts)),
  });
  return { lines, begun };
}

const read = (lines: readonly string[]): RecordedLine[] =>
  lines.map((text, index) => {
    const line = parseLine(text, index === 0);
    if (!line.ok) throw new Error(line.reason);
    return line.value;
  });

describe('a recording', () => {
  test('[RC1] of chance comes out the same again, over restarts of the server too', async () => {
    const seeds = [3, 4, 5, 6, 7, 8];
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

  test('[RC3] an event that is another one is found where it is', async () => {
    const lines = read(played(4).lines);
    const place = lines.findLastIndex(({ event }) => event.type === 'donorJoined');
    const line = at(lines, place);
    const event = structuredClone(line.event) as Extract<DecisionEvent, { type: 'donorJoined' }>;
    const other = { ...event, adapter: { ...event.adapter, vendor: 'another' } };
    const { difference, events } = await replay(lines.with(place, { ...line, event: other }), hash);
    expect(events).toBe(place + 1);
    const where = { event: place + 1, type: 'donorJoined', at: line.at, in: 'state', recorded: line.state };
    expect(difference).toEqual({ ...where, came: expect.any(String) });
    expect(difference?.came).not.toBe(line.state);
  });

  test('[RC3] a digest of effects that is another one is found', async () => {
    const lines = read(played(4).lines);
    const line = at(lines, 9);
    const { difference } = await replay(lines.with(9, { ...line, effects: 'x' }), hash);
    expect(difference).toMatchObject({ event: 10, in: 'effects', recorded: 'x', came: line.effects });
  });

  test('[RC4] an event that the decisions throw over changes nothing, and is told', async () => {
    const lines = read(played(4).lines).slice(0, 10);
    const last = at(lines, 9);
    const broken = { ...last, event: { type: 'sentBack' } as DecisionEvent, effects: hash('[]') };
    const { difference, threw } = await replay([...lines, broken], hash);
    expect(difference).toBeNull();
    expect(threw).toEqual([{ event: 11, message: expect.any(String) }]);
  });

  test('[RC3] what is no recording is refused in a sentence', () => {
    const first = at(played(4).lines, 0);
    expect(parseLine(first, true).ok).toBe(true);
    const refused = (text: string, isFirst = true) => {
      const line = parseLine(text, isFirst);
      return line.ok ? null : line.reason;
    };
    expect(refused('not JSON')).toBe('is no JSON');
    expect(refused('{"at":1}')).toMatch(/^is no line of a recording/);
    expect(refused(first.replace('"version":1', '"version":2'))).toMatch(/^is of version 2 of recordings/);
    const other = '{"at":1,"event":{"type":"donorGone"},"state":"a","effects":"b"}';
    expect(refused(other)).toMatch(/^begins with donorGone/);
    expect(refused(other, false)).toBeNull();
  });
});
