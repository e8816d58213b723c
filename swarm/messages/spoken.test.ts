import { expect, test } from 'vitest';
import { below, seededRandom } from '../base.ts';
import { Spoken } from './spoken.ts';

const ROOM = 1_000;

test('[RE80] whatever is lost with a connection, each end hears every word of the other once, in order', () => {
  for (let seed = 0; seed < 200; seed++) {
    const random = seededRandom(seed);
    const spoken = new Spoken<string>();
    const [said, heard]: [string[], string[]] = [[], []];
    let onTheWay: string[] = [];
    for (let turn = 0; turn < 100; turn++) {
      const what = random();
      if (what < 0.5) {
        const word = `${turn}`;
        said.push(word);
        spoken.say(word, ROOM);
        onTheWay.push(word);
      } else if (what < 0.8) heard.push(...onTheWay.splice(0, 1 + below(random, 3)));
      else if (what < 0.9) spoken.confirm(heard.length);
      else onTheWay = [...(spoken.unheard(heard.length) ?? ['forgotten'])]; // it broke, and goes on
    }
    expect([...heard, ...onTheWay], `seed ${seed}`).toEqual(said);
  }
});

test('[RE80] what is longer than there is room for is forgotten, the oldest first, and no more is claimed', () => {
  const spoken = new Spoken<string>();
  for (const word of ['a', 'bb', 'ccc']) spoken.say(word, 5);
  expect([0, 1, 2, 3, 4].map((heard) => spoken.unheard(heard))).toEqual([null, ['bb', 'ccc'], ['ccc'], [], null]);
  spoken.confirm(9);
  spoken.confirm(2);
  expect([1, 2].map((heard) => spoken.unheard(heard))).toEqual([null, ['ccc']]);
});
