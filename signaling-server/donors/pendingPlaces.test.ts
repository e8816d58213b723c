import { expect, test } from 'vitest';
import { PendingPlaces } from './pendingPlaces.ts';

const SECOND_MS = 1_000;

/** Connections as they come; who is in, by the order of coming. */
class Doors {
  readonly places = new PendingPlaces();
  readonly inside = new Set<number>();
  #came = 0;

  come(address: string, nowMs: number): { readonly isIn: boolean; readonly leave: () => void } {
    const number = this.#came++;
    const pending = { address, refuse: () => void this.inside.delete(number) };
    const isIn = this.places.enter(pending, nowMs);
    if (isIn) this.inside.add(number);
    const leave = (): void => {
      this.places.leave(pending);
      this.inside.delete(number);
    };
    return { isIn, leave };
  }
}

test('a thousand of one address have 64 places, its oldest give way; another address always comes in', () => {
  const doors = new Doors();
  for (let number = 0; number < 1_000; number++) expect(doors.come('192.0.2.1', number).isIn).toBe(true);
  expect([...doors.inside]).toEqual(Array.from({ length: 64 }, (_, index) => 936 + index));
  for (let pupil = 0; pupil < 30; pupil++) expect(doors.come('198.51.100.7', 1_000).isIn).toBe(true);
  expect(doors.inside.size).toBe(94);
});

test('where all places are taken the address with most of them gives way, whoever comes', () => {
  const doors = new Doors();
  for (const address of ['a', 'b', 'c', 'd'])
    for (let number = 0; number < 64; number++) doors.come(address, SECOND_MS);
  expect(doors.inside.size).toBe(256);
  expect(doors.come('e', SECOND_MS).isIn).toBe(true);
  expect([doors.inside.size, doors.inside.has(0)]).toEqual([256, false]); // the oldest of a
  for (let number = 0; number < 3; number++) doors.come('f', SECOND_MS);
  expect([64, 128, 192].map((first) => doors.inside.has(first))).toEqual([false, false, false]);
});

test('of a crowd of as many addresses each newcomer waits until the oldest has had its ten seconds', () => {
  const doors = new Doors();
  for (let number = 0; number < 256; number++) expect(doors.come(`10.0.${number}.1`, 0).isIn).toBe(true);
  expect(doors.come('192.0.2.9', 9 * SECOND_MS).isIn).toBe(false);
  expect(doors.come('192.0.2.9', 10 * SECOND_MS).isIn).toBe(true);
  expect(doors.inside.has(0)).toBe(false);
});

test('who is admitted leaves its place to others', () => {
  const doors = new Doors();
  for (let number = 0; number < 1_000; number++) {
    const { isIn, leave } = doors.come('192.0.2.1', 0);
    expect(isIn).toBe(true);
    leave();
  }
  expect(doors.places.count).toBe(0);
});
