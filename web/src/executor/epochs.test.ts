import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { Epochs, ValuesMissing } from './epochs.ts';

const OTHER = peerId('other');

/** What is told of an epoch whose state lacks values; `inBetween`: done in the one before, and told last of it. */
async function toldOf(inBetween: (epochs: Epochs) => void): Promise<unknown[]> {
  const told: unknown[] = [];
  const epochs = new Epochs((...fault) => void told.push(fault));
  epochs.begin(2, null, async () => undefined);
  inBetween(epochs);
  epochs.begin(3, 2, async () => {
    throw new ValuesMissing('after 2 steps, not 3');
  });
  await epochs.current?.work;
  return told;
}

test('[CO22] where a lost link broke a committed step off, that is what the next epoch lacks', async () => {
  const told = await toldOf((epochs) => {
    if (epochs.current) epochs.fault(epochs.current, 'linkLost', 'it closed', OTHER);
  });
  expect(told).toEqual([
    [2, 'linkLost', 'it closed', OTHER],
    [3, 'linkLost', 'it closed', OTHER],
  ]);
});

test('[CO22] where nothing did it is an error of ours', async () => {
  expect(await toldOf(() => undefined)).toEqual([[3, 'internal', 'Error: after 2 steps, not 3', undefined]]);
});
