import { describe, expect, test } from 'vitest';
import { ONE_TWO, upTo } from '../testing/chain.ts';
import { parseSimulateProblem } from './problem.ts';

describe('refusals', () => {
  const reason = (given: object): string => {
    const parsed = parseSimulateProblem({
      schedule: '1f1b',
      microBatches: 4,
      stages: [ONE_TWO, ONE_TWO, ONE_TWO],
      ...given,
    });
    return parsed.ok ? 'none' : parsed.reason;
  };
  test.each([
    [{ schedule: 'chimera' }, 'chimera needs an even number of peers, not 3'],
    [{ schedule: 'chimera', stages: upTo(8).map(() => ONE_TWO), microBatches: 8, pairs: 3 }, 'pairs to divide half'],
    [{ schedule: 'chimera', stages: [ONE_TWO, ONE_TWO], microBatches: 3 }, 'a multiple of the 2 peers, not 3'],
    [{ schedule: 'interleaved' }, 'interleaved needs microBatches to be a multiple of the 3 peers, not 4'],
    [{ schedule: 'zigzag' }, 'schedule must be one of gpipe, 1f1b, interleaved'],
    [{ microBatches: 0 }, 'microBatches must be a positive integer, not 0'],
    [{ microBatches: 1e9 }, 'microBatches times stages must be at most'],
    [{ stages: [] }, 'stages must be a list of one stage or more'],
    [{ stages: [{ forwardSeconds: 1 }] }, 'stages[0].backwardSeconds is missing'],
    [
      { stages: [{ forwardSeconds: -1, backwardSeconds: 1 }] },
      'stages[0].forwardSeconds must be a number of 0 or more',
    ],
    [{ stages: [{ ...ONE_TWO, forwardSeconds: Number.NaN }] }, 'stages[0].forwardSeconds must be a number'],
    [{ stages: [{ ...ONE_TWO, speed: 1 }] }, 'stages[0].speed is unknown'],
    [{ link: { latencySeconds: -1 } }, 'link.latencySeconds must be a number of 0 or more, not -1'],
    [{ link: [{}, { rate: 1 }, {}] }, 'link[1].rate is unknown'],
    [{ link: [{}] }, 'link must have an entry for each of the 3 peers'],
    [{ link: { bytesPerSecond: 0 } }, 'link.bytesPerSecond must be a number above 0, or null, not 0'],
    [{ link: { streams: 0 } }, 'link.streams must be a positive integer'],
    [{ chunks: 0 }, 'chunks must be a positive integer'],
    [{ warmup: 'slow' }, 'warmup must be "normal" or "overlap"'],
    [{ jitter: { computeSeconds: -1 } }, 'jitter.computeSeconds must be a number of 0 or more'],
    [{ jitter: { seed: 0.5 } }, 'jitter.seed must be an integer'],
    [{ maxInFlight: 0 }, 'maxInFlight must be a positive integer, or null'],
    [{ microbatches: 3 }, 'microbatches is unknown'],
    [{ pipelines: 0 }, 'pipelines must be a positive integer, not 0'],
    [
      { microBatches: 1e5, pipelines: 4 },
      'microBatches times stages times pipelines must be at most 1000000, not 1200000',
    ],
    [{ sharedLinks: 1 }, 'sharedLinks must be a list of numbers of links, not 1'],
    [{ sharedLinks: [0.5] }, 'sharedLinks[0] must be an integer of 0 or more, not 0.5'],
    // Three peers in a row have two links, in a ring three.
    [{ pipelines: 2, sharedLinks: [0, 2] }, 'sharedLinks[1] must be a number of a link, at most 1, not 2'],
    [
      { schedule: 'interleaved', chunks: 2, microBatches: 3, pipelines: 2, sharedLinks: [3] },
      'sharedLinks[0] must be a number of a link, at most 2, not 3',
    ],
    [{ stages: [ONE_TWO], pipelines: 2, sharedLinks: [0] }, 'sharedLinks must be empty where one peer has no link'],
    [{ pipelines: 2, sharedLinks: [1, 1] }, 'sharedLinks must name each link once: 1 stands there twice'],
    [{ sharing: 'equal' }, 'sharing must be "mixed" or "turns", not "equal"'],
    [{ requests: {} }, 'requests.pieceSeconds is missing: it must be a number above 0'],
    [{ requests: { pieceSeconds: 0 } }, 'requests.pieceSeconds must be a number above 0, not 0'],
    [{ requests: { pieceSeconds: -1 } }, 'requests.pieceSeconds must be a number above 0, not -1'],
    [{ requests: { pieceSeconds: Number.NaN } }, 'requests.pieceSeconds must be a number above 0, not NaN'],
    [
      { requests: { pieceSeconds: 1, guardSeconds: -1 } },
      'requests.guardSeconds must be a number of 0 or more, not -1',
    ],
    [
      { requests: { pieceSeconds: 1, guardSeconds: Infinity } },
      'requests.guardSeconds must be a number of 0 or more, not Infinity',
    ],
    [
      { requests: { pieceSeconds: 1, guard: 1 } },
      'requests.guard is unknown: expected one of pieceSeconds, guardSeconds',
    ],
  ])('%j', (given, sentence) => {
    expect(reason(given)).toContain(sentence);
  });

  test('on a ring the hop from the last peer to the first needs its entry', () => {
    const ring = { schedule: 'interleaved', microBatches: 3, chunks: 2 };
    expect(reason({ ...ring, link: [{}, {}] })).toContain('link must have an entry for each of the 3 peers: not 2');
    expect(reason({ ...ring, link: [{}, {}, {}] })).toBe('none');
  });
});
