/** Donors that wait for each other, by their own words: told by a coordinator with a relay that sees what the test says. */
import { expect, it } from 'vitest';
import { acceptedModel } from '../model/acceptedModel.ts';
import { script } from '../testing/script.ts';
import type { Passage } from '../ways/passage.ts';
import { stepTensors } from '../ways/tensors.ts';
import { passageText } from '../ways/wentBy.ts';
import type { Pair } from './events.ts';

/** `a` has the first stage and `b` the second one: at step 0, and neither has reported. */
function training(part: Parameters<typeof script>[0] = {}) {
  const swarm = script({ expectedDonors: 2, ...part });
  swarm.join('a', 'b');
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}
type Swarm = ReturnType<typeof training>;

/** By each one's heartbeats, from the third second on until the look or the deadline comes. */
function say(swarm: Swarm, waits: Readonly<Record<string, readonly string[]>>, done = 4) {
  swarm.pass(2_000);
  const { epoch } = swarm.run.state;
  for (const [name, others] of Object.entries(waits)) {
    const waitsFor = others.map((other) => swarm.peer(other));
    const at = { epoch, step: swarm.run.state.committedSteps, done, waitsFor, hasReported: false };
    swarm.say(name, { type: 'heartbeat', at });
  }
}

const CIRCLE = { a: ['b'], b: ['a'] };

function wentBy(swarm: Swarm, is: (passage: Passage) => boolean): string[] {
  const { plan } = swarm.run.store;
  if (plan === null) return [];
  const { config } = swarm.run.state;
  const all = stepTensors(acceptedModel(config), plan, { sequence: config.batch.sequence, wire: config.wire });
  return all.filter(is).map(({ from, to, tensor }) => passageText(0, from, to, tensor));
}

/** In the second epoch, where their tensors go through the server: it saw these, then nothing for 20 s. */
function watched(swarm: Swarm, whole: readonly string[], full: readonly Pair[] = []) {
  say(swarm, CIRCLE);
  swarm.expire();
  swarm.settle('* report');
  swarm.trace();
  say(swarm, CIRCLE);
  swarm.relaySaw({ whole, full, moved: 9 });
  swarm.pass(20_000);
  swarm.relaySaw({ whole, full, moved: 9 });
}

it('[CO94] what two send each other who wait for each other goes through the server, and nobody is late by that', () => {
  const swarm = training();
  say(swarm, CIRCLE);
  swarm.expire();
  expect(swarm.trace()).toEqual([
    'a b < abandon e1',
    'epoch 2 a b: a waits for b, b waits for a',
    'a b < prepare e2 step 0 kept',
  ]);
  expect(swarm.run.state).toMatchObject({ relayed: [['a', 'b']], attempts: { stalls: 0, late: [] } });
});

it('[CO94] before the deadline once they have said nothing new for long; at the deadline whatever they say', () => {
  const soon = training();
  say(soon, CIRCLE);
  soon.pass(28_000);
  soon.tick();
  expect(soon.trace()).toContain('epoch 2 a b: a waits for b, b waits for a');
  const busy = training();
  for (let second = 0; second < 56; second += 2) say(busy, CIRCLE, second);
  busy.tick();
  expect(busy.trace()).toEqual([]);
  busy.expire();
  expect(busy.trace()).toContain('epoch 2 a b: a waits for b, b waits for a');
});

/** `a` waits for `b` and has ever more done, by its own word; `b` reported at once, or waits for `a`: with more done, or not. */
function claiming(hasReported: boolean, bothMove: boolean) {
  const swarm = training();
  if (hasReported) swarm.settle('a report');
  swarm.trace();
  // A look comes half of the step's time after its start (CO76), or 7 s after half have reported (RE27).
  for (let second = 0; second <= (hasReported ? 6 : 30); second += 2) {
    say(swarm, { a: ['b'] }, second);
    const { epoch } = swarm.run.state;
    const waitsFor = bothMove || !hasReported ? [swarm.peer('a')] : [];
    const at = { epoch, step: 0, done: bothMove ? second : 4, waitsFor, hasReported };
    swarm.say('b', { type: 'heartbeat', at });
  }
  swarm.tick();
  return swarm;
}

it.each([
  ['one that has reported', true, 'epoch 2 a b: a waits for b'],
  ['one that waits for it', false, 'epoch 2 a b: a waits for b, b waits for a'],
])('[CO94] who waits for %s gets on by the words of both, not by its own alone', (_, hasReported, line) => {
  expect(claiming(hasReported, true).trace()).toEqual([]);
  const claimed = claiming(hasReported, false);
  expect(claimed.trace()).toContain(line);
  expect(claimed.run.state).toMatchObject({ relayed: [['a', 'b']], attempts: { late: [] }, donors: [{}, {}] });
});

it('[CO95] where it watches the server looks soon after half have reported, and who has all of it and waits on goes', () => {
  const swarm = claiming(true, false);
  swarm.settle('a report');
  const whole = wentBy(swarm, () => true);
  // The first look asks what went by; from then on nothing moves for 5 s.
  for (let second = 0; second < 8; second += 2) {
    say(swarm, { a: ['b'] }, second);
    swarm.tick();
    swarm.relaySaw({ whole });
  }
  const lines = swarm.trace();
  expect(lines).toContain('relayAsked');
  expect(lines).toContain('refuse a tooLate');
});

it('[CO95] nobody is judged by what went by some time ago: who has sent its part since then stays', () => {
  const swarm = claiming(true, false);
  swarm.settle('* report');
  const whole = wentBy(swarm, ({ from }) => from === swarm.peer('a'));
  // `b` computes for long; all that it sends, and its report, come between two answers of the server.
  for (let second = 0; second < 12; second += 2) {
    say(swarm, { a: ['b'], b: [] }, second);
    swarm.tick();
    if (second === 10) swarm.settle('a report');
    else swarm.relaySaw({ whole, moved: 9 });
  }
  swarm.pass(1_000);
  say(swarm, { a: ['b'] });
  swarm.tick();
  swarm.relaySaw({ whole: wentBy(swarm, () => true), moved: 20 });
  expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
});

it('[CO31] [CO94] who works ten times as long as others, by its own word alone, is in time for each step', () => {
  const swarm = training({ steps: 9 });
  for (const step of [0, 1, 2]) {
    swarm.pass(800);
    swarm.settle('a *');
    for (let second = 0; second < 8; second += 2) {
      swarm.pass(2_000);
      const { epoch } = swarm.run.state;
      const at = { epoch, step, done: second, waitsFor: [], hasReported: false };
      swarm.say('a', { type: 'heartbeat', at });
      swarm.tick();
    }
    while (swarm.run.state.committedSteps === step) swarm.settleOne();
  }
  expect(swarm.trace().filter((line) => /refuse|abandon|epoch/.test(line))).toEqual([]);
});

it.each([
  ['a', 'sent nothing', () => false],
  ['b', 'got every activation and sent no gradient', ({ tensor }: Passage) => tensor.kind === 'activation'],
] as const)('[CO95] %s goes, which %s, and the other one stays', (goes, _what, is) => {
  const swarm = training();
  watched(swarm, wentBy(swarm, is));
  expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([`refuse ${goes} tooLate`]);
});

it('[CO95] so does one that has got all that it needs, and does not report', () => {
  const swarm = training();
  say(swarm, CIRCLE);
  swarm.expire();
  swarm.settle('a report');
  swarm.trace();
  say(swarm, { a: ['b'] });
  const whole = wentBy(swarm, () => true);
  for (const _ of [1, 2]) {
    swarm.relaySaw({ whole });
    swarm.pass(20_000);
  }
  swarm.tick();
  expect(swarm.trace()).toContain('refuse a tooLate');
});

it('[CO95] so does one that takes nothing of what is sent to it', () => {
  const swarm = training();
  watched(swarm, [], [[swarm.peer('a'), swarm.peer('b')]]);
  expect(swarm.trace()).toContain('refuse b tooLate');
});

it('[CO95] nobody as long as something moves, and at the third deadline one of them rests; nobody is refused', () => {
  const swarm = training();
  let moved = 0;
  for (let time = 0; time < 4; time++) {
    say(swarm, CIRCLE);
    for (let look = 0; swarm.run.state.phase.name === 'training' && look < 500; look++) {
      swarm.pass(1_000);
      swarm.relaySaw({ moved: ++moved });
      swarm.tick();
    }
    swarm.settle('* report');
  }
  const lines = swarm.trace();
  expect(lines.filter((line) => line.startsWith('refuse'))).toEqual([]);
  expect(lines.filter((line) => line.startsWith('epoch')).at(-1)).toContain('b rests for a minute');
  expect(lines).toContain('b < standby spare');
});

it('[CO94] so do those send each other of whom one waits for another that has reported', () => {
  const swarm = training();
  swarm.settle('b report');
  say(swarm, { b: ['a'] });
  swarm.expire();
  expect(swarm.run.state).toMatchObject({ relayed: [['b', 'a']], donors: [{}, {}] });
});

it('[CO31] who waits for a late one is not late, neither the second nor the third time', () => {
  const swarm = training();
  for (let time = 0; time < 3; time++) {
    for (let second = 0; second < 20; second += 2) say(swarm, { a: ['b'], b: [] }, second + time);
    swarm.expire();
    swarm.settle('* report');
  }
  expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual(['refuse b tooLate']);
});

it('[CO76] who only waits for another to get ready stays; who waits for one that is ready is seen to as in a step', () => {
  const prepared = () => {
    const swarm = training({ steps: 9 });
    while (swarm.run.state.committedSteps === 0) swarm.settleOne();
    swarm.say('a', { type: 'fault', epoch: 1, reason: 'internal', detail: '' });
    swarm.trace();
    return swarm;
  };
  const waiting = prepared();
  say(waiting, { a: ['b'], b: [] });
  waiting.expire();
  expect(waiting.trace()[0]).toBe('refuse b tooLate');
  const contradicted = prepared();
  contradicted.settle('b ready', '* report');
  say(contradicted, { b: ['a'] });
  contradicted.expire();
  expect(contradicted.run.state).toMatchObject({ relayed: [['b', 'a']], donors: [{}, {}] });
});
