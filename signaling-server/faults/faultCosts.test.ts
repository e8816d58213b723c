/** What a fault cost, from what is seen of the run: times by hand. */
import { expect, test } from 'vitest';
import { parseChaosScript } from './chaosScript.ts';
import { FaultCosts } from './faultCosts.ts';

function watch(text: string) {
  const script = parseChaosScript(text, 4);
  if (!script.ok) throw new Error(script.reason);
  const costs = new FaultCosts();
  let now = {
    nowMs: 0,
    epoch: 1,
    epochReason: 'a plan was needed',
    committedSteps: 5,
    movedBytes: 100,
    peers: new Set(['a', 'b', 'c']),
  };
  costs.see(now);
  return {
    begin: (index: number, peer: string | null, nowMs: number) => {
      const entry = script.value[index];
      if (entry === undefined) throw new Error(`the script has no entry ${index}`);
      return costs.begin(entry, peer, nowMs);
    },
    see: (nowMs: number, change: Partial<Omit<typeof now, 'nowMs' | 'peers'>> & { peers?: string[] }) => {
      const { peers = [...now.peers], ...rest } = change;
      now = { ...now, ...rest, nowMs, peers: new Set(peers) };
      costs.see(now);
    },
    costs: () => costs.of(script.value),
  };
}

test('a loss costs from its own moment to the first commit after the run knew of it', () => {
  const run = watch('kill:1@5');
  run.begin(0, 'b', 1_000);
  run.see(1_500, { committedSteps: 6 }); // its report was in already
  run.see(3_000, { peers: ['a', 'c'], committedSteps: 3 });
  run.see(3_000, { epoch: 2, epochReason: 'b is gone', movedBytes: 150 });
  run.see(4_500, { committedSteps: 4 });
  run.see(5_500, { epoch: 3, movedBytes: 900, epochReason: 'd joins', committedSteps: 5 }); // of somebody who came later
  const [cost] = run.costs();
  expect(cost).toEqual({
    entry: 'kill:1@5',
    ...{ detectedSeconds: 2, resumedSeconds: 3.5, stepsGivenUp: 3, bytesMoved: 50 },
  });
});

test('what nobody noticed cost the time to the next commit', () => {
  const run = watch('freeze:1@5+1s,slow:2@5*2');
  run.begin(0, 'b', 1_000);
  run.begin(1, 'c', 1_000);
  run.see(2_500, { committedSteps: 6 });
  const cost = { detectedSeconds: null, resumedSeconds: 1.5, stepsGivenUp: 0, bytesMoved: 0 };
  expect(run.costs()).toEqual([
    { entry: 'freeze:1@5+1s', ...cost },
    { entry: 'slow:2@5*2', ...cost },
  ]);
});

test('another epoch is the doing of whom its reason names', () => {
  const run = watch('slow:2@5*2,kill:1@6');
  run.begin(0, 'c', 1_000);
  run.see(2_000, { committedSteps: 6 });
  run.begin(1, 'b', 2_500);
  run.see(3_000, { peers: ['a', 'c'], epoch: 2, epochReason: 'b is gone' });
  run.see(4_000, { committedSteps: 7 });
  expect(run.costs().map(({ detectedSeconds, resumedSeconds }) => [detectedSeconds, resumedSeconds])).toEqual([
    [null, 1],
    [0.5, 1.5],
  ]);
});

test('a server that was started again counts its bytes anew', () => {
  const run = watch('server-kill@5');
  run.begin(0, null, 1_000);
  run.see(2_000, { movedBytes: 0, committedSteps: 4, peers: [] });
  run.see(3_000, { movedBytes: 70, epoch: 2, epochReason: 'd joins', peers: ['d', 'e'] });
  run.see(4_000, { committedSteps: 5 });
  expect(run.costs()).toEqual([
    { entry: 'server-kill@5', detectedSeconds: 2, resumedSeconds: 3, stepsGivenUp: 1, bytesMoved: 70 },
  ]);
});

test('of who leaves by a button: the commit that its last boundary came with is not the next one', () => {
  const run = watch('leave:1@5');
  run.begin(0, 'b', 1_000);
  run.see(2_000, { committedSteps: 6 });
  run.see(3_000, { committedSteps: 7, epoch: 2, epochReason: 'b is leaving', movedBytes: 140 });
  run.see(4_500, { committedSteps: 8 });
  expect(run.costs()).toEqual([
    { entry: 'leave:1@5', detectedSeconds: 2, resumedSeconds: 3.5, stepsGivenUp: 0, bytesMoved: 40 },
  ]);
});

test('of several faults each has the epoch that names its donor: nobody else has its bytes', () => {
  const run = watch('slow:1@7*3,leave:2@10,join@12');
  run.begin(0, 'b', 1_000);
  run.see(2_000, { committedSteps: 6 });
  run.begin(1, 'c', 3_000);
  run.see(4_000, { committedSteps: 7, epoch: 2, epochReason: 'c is leaving', movedBytes: 130 });
  run.see(4_100, { peers: ['a', 'b'] });
  run.see(5_000, { committedSteps: 8 });
  // Its epoch is seen before its admission is.
  run.see(6_000, { epoch: 3, epochReason: 'd joins', movedBytes: 170, peers: ['a', 'b', 'd'] });
  run.begin(2, 'd', 6_200);
  run.see(7_000, { committedSteps: 9 });
  run.see(8_000, { epoch: 4, epochReason: 'a step takes 3 s, with the plan before it took 1 s', movedBytes: 175 });
  run.see(9_000, {
    committedSteps: 10,
    epoch: 5,
    epochReason: 'd was seen at work; b takes 300% the time',
    movedBytes: 195,
  });
  run.see(9_500, { committedSteps: 11 });
  expect(run.costs()).toEqual([
    { entry: 'slow:1@7*3', detectedSeconds: 8, resumedSeconds: 8.5, stepsGivenUp: 0, bytesMoved: 20 },
    { entry: 'leave:2@10', detectedSeconds: 1, resumedSeconds: 2, stepsGivenUp: 0, bytesMoved: 30 },
    { entry: 'join@12', detectedSeconds: 0, resumedSeconds: 1, stepsGivenUp: 0, bytesMoved: 40 },
  ]);
});

test('of two faults at one step, one alone has the bytes and the steps', () => {
  const run = watch('kill:1@5,kill:2@5,slow:0@5*2');
  run.begin(0, 'b', 1_000);
  run.begin(1, 'c', 1_000);
  run.begin(2, 'a', 1_000);
  run.see(2_000, { peers: ['a', 'c'] });
  run.see(2_000, { peers: ['a'], committedSteps: 3 });
  run.see(3_000, { epoch: 2, epochReason: 'c is gone', movedBytes: 160 });
  run.see(4_000, { committedSteps: 4 });
  const found = run.costs().map(({ entry, stepsGivenUp, bytesMoved }) => [entry, stepsGivenUp, bytesMoved]);
  expect(found).toEqual([
    ['kill:1@5', 0, 0],
    ['kill:2@5', 2, 60],
    ['slow:0@5*2', 0, 0],
  ]);
});
