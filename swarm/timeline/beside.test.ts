import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { besideSpans, besideText, readBeside } from './beside.ts';
import { besideOfRows, rowsOf, timelineOfRows, turnEndsOfRows } from './rows.ts';

const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
const member = (peer: typeof A, microBatches: number[]) => ({ peer, microBatches, samples: 1, recompute: [] });
const PLAN: Plan = {
  stages: [{ layers: [0, 2], members: [member(A, [0]), member(B, [1])], gathered: 1 }],
  microBatches: [0, 1].map((id) => ({ id, samples: [id, id + 1] as [number, number] })),
  state: [{ block: 'head', shards: [{ peer: C, range: [0, 4], replicas: [], in: 'host' }] }],
  schedule: 'gpipe',
};
const said = (...actions: string[]) => actions.map((action) => ({ action, start: 1, end: 2 }));

test('every word is read as it is written', () => {
  const words = ['1SEND_F3', '1SEND_B3', '0GATHER_F3', '0GATHER_B3', '0REDUCE', '0GATHER', '0ANSWER'];
  for (const word of [...words, 'UPDATE', 'UPDATE_HOST', 'SEND_V', 'SWITCH', 'MEET']) {
    const action = readBeside(word);
    expect(action && besideText(action)).toBe(word);
  }
  for (const word of ['0F0', 'UPDATE0', 'GATHER', '0GATHER_F', 'REPORT', '0RECV_F1'])
    expect(readBeside(word)).toBeNull();
});

test('of what a donor says the plan’s alone counts, of no impossible length', () => {
  const texts = (peer: typeof A, spans: Parameters<typeof besideSpans>[2]): string[] =>
    besideSpans(PLAN, peer, spans).map(({ action }) => besideText(action));
  expect(texts(A, said('0GATHER_F0', '0GATHER_F1', '1REDUCE', '0REDUCE', 'UPDATE', '0F0'))).toEqual([
    '0GATHER_F0',
    '0REDUCE',
    'UPDATE',
  ]);
  expect(texts(C, said('UPDATE_HOST', '0GATHER', '0SEND_F0'))).toEqual(['UPDATE_HOST']);
  expect(texts(peerId('stranger'), said('UPDATE_HOST'))).toEqual([]);
  for (const end of [0, 3_602]) expect(texts(A, [{ action: 'UPDATE', start: 1, end }])).toEqual([]);
});

test('rows keep work, turns’ ends and what stands beside apart', () => {
  const beside = besideSpans(PLAN, A, said('0GATHER_F0', 'UPDATE_HOST', 'MEET'));
  const work = { peer: A, action: { op: 'F', stage: 0, microBatch: 0 } as const, startSeconds: 0, endSeconds: 1 };
  const rows = rowsOf([work], beside);
  expect(rows.map(([, text]) => text)).toEqual(['0F0', '0GATHER_F0', 'UPDATE_HOST', 'MEET']);
  expect(timelineOfRows(rows)).toEqual([work]);
  expect(turnEndsOfRows(rows).map(({ action }) => action.op)).toEqual(['MEET']);
  expect(besideOfRows(rows)).toEqual(beside.slice(0, 2));
});
