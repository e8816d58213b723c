import { expect, test } from 'vitest';
import type { DryRun } from '../../../swarm/run/runDraft.ts';
import { fitText, noFitText } from './draftFit.ts';

const planOf = (
  peers: readonly string[],
  idle: readonly string[],
): Pick<DryRun, 'peers' | 'idle' | 'totalSeconds'> => ({
  peers: peers.map((peer) => ({ peer }) as DryRun['peers'][number]),
  idle: idle.map((peer) => ({ peer, reason: 'its link is slow' })),
  totalSeconds: 720,
});

test('a draft that fits says who would train it and who would not', () => {
  expect(fitText(planOf(['a'], []))).toBe('It fits: donor a would train it, in about 12 min. Nobody is left out.');
  expect(fitText(planOf(['a', 'b'], ['c']))).toBe(
    'It fits: donors a and b would train it, in about 12 min. Left out: c (its link is slow).',
  );
  expect(fitText(planOf(['a', 'b', 'c', 'd', 'e', 'f'], ['g', 'h']))).toBe(
    'It fits: donors a, b, c, d and 2 others would train it, in about 12 min. Left out: g and h. “Check plan” says why.',
  );
});

test('one that does not fit says what is missing, once', () => {
  expect(noFitText('Refused: the model does not fit these donors: about 3 GiB of memory is missing.')).toBe(
    'The donors who are here now cannot train it: about 3 GiB of memory is missing. You can create it all the same; it waits for donors who can.',
  );
});
