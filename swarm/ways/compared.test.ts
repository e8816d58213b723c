import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { keepersOf } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { comparedShards, onlySent, sliceName } from './compared.ts';
import { stepTensors } from './tensors.ts';

const PEERS = ['a', 'b', 'c'].map(peerId);

test.each([1, 2])('[RE14] what is compared is what a step sends to more keepers than one: %s replicas', (replicas) => {
  for (const tied of [false, true]) {
    const model = outlineModel(4, tied);
    const plan = ringReplicas(equalSplit(model, 4, PEERS), replicas);
    const compared = comparedShards(model, plan);
    const ways = compared.flatMap(({ shard, slices }) =>
      slices.flatMap(({ holder, tensor }) =>
        keepersOf(shard).flatMap((keeper) => (keeper === holder ? [] : `${holder} ${keeper} ${sliceName(tensor)}`)),
      ),
    );
    const sent = stepTensors(model, plan, { sequence: 4, wire: 'f32' }).flatMap(({ from, to, tensor }) =>
      tensor.kind === 'slice' ? `${from} ${to} ${sliceName(tensor)}` : [],
    );
    expect(ways.toSorted()).toEqual(sent.toSorted());
    const others = new Set(sent.map((way) => way.split(' ')).map(([from, , name]) => `${from} ${name}`));
    for (const peer of PEERS)
      for (const tensor of onlySent(compared, peer)) expect(others).toContain(`${peer} ${sliceName(tensor)}`);
  }
});
