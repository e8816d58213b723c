import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { BesideLog, besideReported } from './besideLog.ts';

const told = (log: BesideLog, most = 64): string[] =>
  log
    .take(most)
    .map(besideReported)
    .map(({ action, start, end }) => `${action} ${start}-${end}`);

function logAt(): { log: BesideLog; at: (seconds: number) => void } {
  let now = 0;
  return {
    log: new BesideLog(peerId('own'), () => now),
    at: (seconds) => {
      now = seconds;
    },
  };
}

function later(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve: () => resolve() };
}

/** Until all that was done is heard of. */
const heard = async (): Promise<void> => {
  for (let turn = 0; turn < 4; turn++) await Promise.resolve();
};

test('parts of one hand-over are one span, told once all of them are over, and once', async () => {
  const { log, at } = logAt();
  const [first, second] = [later(), later()];
  at(1);
  log.sent({ kind: 'slice', stage: 2, index: 0 }, first.promise);
  at(2);
  log.sent({ kind: 'slice', stage: 2, index: 1 }, second.promise);
  at(3);
  first.resolve();
  await heard();
  expect(told(log)).toEqual([]);
  at(5);
  second.resolve();
  await heard();
  expect(told(log)).toEqual(['2REDUCE 1-5']);
  expect(told(log)).toEqual([]);
});

test('what outlasts its step is told as it ends, with what was over by then', async () => {
  const { log, at } = logAt();
  const [values, update] = [later(), later()];
  log.until({ op: 'SEND_V' }, values.promise);
  log.until({ op: 'UPDATE' }, update.promise);
  at(1);
  values.resolve();
  await heard();
  const heardOf: string[] = [];
  log.tell(64, (span) => heardOf.push(besideReported(span).action));
  expect(heardOf).toEqual(['SEND_V']);
  at(2);
  update.resolve();
  await heard();
  expect(heardOf).toEqual(['SEND_V', 'UPDATE']);
});

test('what is sent is named by the stage that made it, each gather is a span, and what fails is none', async () => {
  const { log, at } = logAt();
  log.sent({ kind: 'activation', stage: 1, index: 3 }, Promise.resolve());
  log.sent({ kind: 'gradient', stage: 1, index: 3 }, Promise.resolve());
  log.sent({ kind: 'values', stage: 1, index: 3 }, Promise.reject(new Error('gone')));
  log.sent({ kind: 'state', stage: 1, index: 3 }, Promise.resolve());
  log.until({ op: 'GATHER_F', stage: 0, microBatch: 1 }, Promise.resolve());
  await heard();
  at(1);
  log.until({ op: 'GATHER_F', stage: 0, microBatch: 1 }, Promise.resolve());
  await heard();
  expect(told(log, 3)).toEqual(['0SEND_F3 0-0', '2SEND_B3 0-0', '0GATHER_F1 0-0']);
  expect(told(log)).toEqual(['0GATHER_F1 1-1']);
});
