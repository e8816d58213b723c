import { expect, it } from 'vitest';
import { peerId, totalOf } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { CONFIG, PlannedRun, profile } from '../testing/plannedRun.ts';
import { UNMEASURED_LINK } from './lines.ts';
import { connected, predictedMeetingSeconds } from './predicting.ts';

it('a link whose window limits it carries what the connections of the plan do', () => {
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

it('[IS42] a meeting is predicted with what the slowest line has to say, and nothing where nobody meets', () => {
  const [a, b] = [peerId('a'), peerId('b')];
  const upload = 1e5;
  const run = new PlannedRun();
  run.joins(a, profile(0.01), { ...NO_LIMITS, uploadBytesPerSecond: upload });
  run.joins(b, profile(0.01));
  const model = acceptedModel(CONFIG);
  const elements = totalOf(model.blocks, (block) => block.elements);
  const plans = [a, b].map((peer, island) => ({
    ...equalSplit(model, CONFIG.batch.samples, [peer]),
    islands: [island],
  }));
  const outer = { learningRate: 1, momentum: 0 };
  const islands = { count: 2, innerSteps: 4, outer, exchange: 'f32', publish: 'f32', overlap: false } as const;
  const config = { ...run.state.config, batch: { ...run.state.config.batch, islands } };
  const seconds = predictedMeetingSeconds({ ...run.state, config }, plans);
  expect(seconds).toBeCloseTo(UNMEASURED_LINK.latencySeconds + (4 * elements) / upload, 9);
  expect(predictedMeetingSeconds(run.state, plans)).toBeNull();
});
