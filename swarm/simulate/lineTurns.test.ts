import { expect, test } from 'vitest';
import { at, below, type PeerId, peerId, seededRandom, totalOf } from '../base.ts';
import { owner, type Plan, peers } from '../plan/plan.ts';
import { takesTurns } from '../plan/planLink.ts';
import { workGraph } from '../schedule/graph.ts';
import { addTransfers, build } from '../schedule/lower.ts';
import { wiring } from '../schedule/order.ts';
import { randomPlan } from '../testing/randomPlan.ts';
import { isSend, lineTurns, turnsOf, turnText } from './lineTurns.ts';
import { simulateEnds } from './simulate.ts';

const said = (plan: Plan): string[][] =>
  lineTurns(plan).map((messages) => messages.map(({ from, action }) => `${from} ${turnText(action)}`));

/** Two lanes of two stages, `a` to `c` and `b` to `d`, with micro-batches 0, 2 and 1, 3; `a` and `b` behind one router. */
const lanes: Plan = {
  stages: [
    ['a', 'b'],
    ['c', 'd'],
  ].map((pair, stage) => ({
    layers: [stage, stage + 1],
    members: pair.map((peer, lane) => ({
      ...{ peer: peerId(peer), microBatches: [lane, lane + 2], samples: 2, recompute: [] },
    })),
  })),
  microBatches: [0, 1, 2, 3].map((id) => ({ id, samples: [id, id + 1] })),
  state: [],
  schedule: 'gpipe',
  lines: [['a', 'b'].map(peerId)],
};

test('[PL63] two lanes of one line: all of one’s message, then the other’s, the first needed first', () => {
  // Both have their first message at the same time, needed first in both lists: the lower peer's goes first.
  expect(said(lanes)).toEqual([['a SEND_F 0/0', 'b SEND_F 0/1', 'a SEND_F 0/2', 'b SEND_F 0/3']]);
  const turns = turnsOf(lanes, peerId('b'));
  expect([...turns].map(([text, { after, next }]) => [text, after, next?.from])).toEqual([
    ['SEND_F 0/1', 'a', 'a'],
    ['SEND_F 0/3', 'a', undefined],
  ]);
});

test('[PL63] what stays behind the router takes no turn', () => {
  expect(said({ ...lanes, lines: [['a', 'c'].map(peerId)] })).toEqual([[]]);
});

test('[PL63] of random plans all that leaves a home has its turn, once, and no order makes a circle', () => {
  const random = seededRandom(7);
  let count = 0;
  for (let round = 0; round < 300; round++) {
    const { plan: plain } = randomPlan(random);
    const all = peers(plain);
    if (all.length < 2 || !takesTurns(plain.schedule)) continue;
    const cut = 2 + below(random, all.length - 1);
    const plan: Plan = { ...plain, lines: [all.slice(0, cut), ...(all.length - cut > 1 ? [all.slice(cut)] : [])] };
    const schedule = addTransfers(plan, build(plan));
    const graph = workGraph(wiring({ tied: false }, plan, schedule), schedule);
    const lineOf = (peer: PeerId) => plan.lines?.findIndex((line) => line.includes(peer)) ?? -1;
    const lineFor = (from: PeerId, op: string, stage: number, id: number): number | undefined => {
      const line = lineOf(from);
      return line < 0 || line === lineOf(owner(plan, stage + (op === 'SEND_F' ? 1 : -1), id)) ? undefined : line;
    };
    const expected = (plan.lines ?? []).map((_, line) =>
      [...schedule].flatMap(([peer, actions]) =>
        actions.flatMap((action) =>
          isSend(action) && lineFor(peer, action.op, action.stage, action.microBatch) === line
            ? [`${peer} ${turnText(action)}`]
            : [],
        ),
      ),
    );
    const turns = said(plan);
    expect(turns.map((messages) => messages.toSorted())).toEqual(expected.map((messages) => messages.toSorted()));
    // Whatever the work and the messages take: in this order all of it is done (else the simulator says who is stuck).
    const seconds = () => random();
    simulateEnds(graph, {
      ...{ forwardSeconds: seconds, backwardSeconds: seconds },
      lines: lineTurns(plan).map((messages) => ({
        ...{ sharing: 'turns', bytesPerSecond: 0.1 + random(), order: messages.map(({ from }) => from) },
      })),
      link(from, _, action) {
        const line = isSend(action) ? lineFor(from, action.op, action.stage, action.microBatch) : undefined;
        return { latencySeconds: random(), bytesPerSecond: null, ...(line !== undefined && { line }) };
      },
      ...{ activationBytes: seconds, gradientBytes: seconds },
    });
    count += totalOf(turns, (messages) => messages.length);
  }
  expect(count).toBeGreaterThan(200);
  expect(at(said(lanes), 0)).toHaveLength(4);
});
