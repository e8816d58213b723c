import { expect, it } from 'vitest';
import { peerId } from '../base.ts';
import { connected } from './predicting.ts';

it('[AP55] a link whose window limits it carries what the connections of the plan do', () => {
  const pair = { between: ['a', 'b'] as [string, string], latencySeconds: 0.04, bytesPerSecond: 5e6 };
  const other = { between: ['a', 'c'] as [string, string], bytesPerSecond: 1e6 };
  const links = { default: { latencySeconds: 0.01 }, regions: [], pairs: [{ ...pair, windowBytes: 20_000 }, other] };
  const rates = (streams: number | null) => {
    const plan = streams === null ? {} : { links: [{ from: peerId('b'), to: peerId('a'), streams }] };
    return connected({ peers: [], links }, plan).links.pairs;
  };
  expect(rates(null)).toEqual([{ ...pair, bytesPerSecond: 250_000 }, other]);
  expect(rates(4)).toEqual([{ ...pair, bytesPerSecond: 1_000_000 }, other]);
});
