/** Waiting for a NATS that is not ready, with a clock of the test's own. */
import { JetStreamApiError } from '@nats-io/jetstream';
import { TimeoutError } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Patience } from './patience.ts';

const LIMIT_MS = 10_000;
const noPeers = (): Error => new JetStreamApiError({ code: 400, err_code: 10_005, description: 'no suitable peers' });

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Fails with these, one after the other, and then answers. */
function asked(errors: readonly Error[]) {
  let tries = 0;
  const work = async (): Promise<string> => {
    const error = errors[tries++];
    if (error !== undefined) throw error;
    return 'ready';
  };
  return { work, tries: () => tries };
}

async function outcome(patience: Patience, work: () => Promise<string>): Promise<string> {
  const coming = patience.has(work).catch((error: Error) => error.message);
  await vi.advanceTimersByTimeAsync(2 * LIMIT_MS);
  return coming;
}

describe('a NATS that is not ready', () => {
  it('is asked again until it answers, and a person is told once', async () => {
    const words: string[] = [];
    const { work, tries } = asked([new TimeoutError(), noPeers(), new TimeoutError()]);
    expect(await outcome(new Patience(LIMIT_MS, (_level, text) => words.push(text)), work)).toBe('ready');
    expect([tries(), words]).toEqual([4, ['NATS is not ready (timeout): trying for 10 s']]);
  });

  it('is asked no more than so long, also for one thing after the other', async () => {
    const patience = new Patience(LIMIT_MS, () => {});
    const never = Array.from({ length: 1_000 }, noPeers);
    expect(await outcome(patience, asked(never).work)).toBe('no suitable peers');
    const { work, tries } = asked(never);
    expect([await outcome(patience, work), tries()]).toEqual(['no suitable peers', 1]);
  });

  it('is not asked again where that helps nobody: another fault, nobody who waits, no patience', async () => {
    const fault = asked([new Error('not allowed')]);
    expect([await outcome(new Patience(LIMIT_MS, () => {}), fault.work), fault.tries()]).toEqual(['not allowed', 1]);
    const given = asked([noPeers()]);
    const aborted = new Patience(LIMIT_MS, () => {}, AbortSignal.abort());
    expect([await outcome(aborted, given.work), given.tries()]).toEqual(['no suitable peers', 1]);
    const hasty = asked([noPeers()]);
    expect([await outcome(new Patience(0, () => {}), hasty.work), hasty.tries()]).toEqual(['no suitable peers', 1]);
  });
});
