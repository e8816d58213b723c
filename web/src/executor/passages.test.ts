/** What peers really send and await, for random plans, is what the list of the plan's tensors says, key by key. */
import { describe, expect, test } from 'vitest';
import { at, below, type PeerId, peerId, type Range, seededRandom } from '../../../swarm/base.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import { type Plan, peers } from '../../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../../swarm/plan/stateKinds.ts';
import { withWires } from '../../../swarm/planner/streamWires.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { forwardOnly, stepSchedule } from '../../../swarm/schedule/lower.ts';
import { donors, outlineModel, randomPlanFor } from '../../../swarm/testing/randomPlan.ts';
import { arrivalPartners, arrivalTensors, planPartners, type Sizes } from '../../../swarm/ways/partners.ts';
import type { Passage } from '../../../swarm/ways/passage.ts';
import { handoverTensors, heldOutTensors, stepTensors } from '../../../swarm/ways/tensors.ts';
import { WIRE_ENCODINGS } from '../../../swarm/wire.ts';
import { FULL_SPEED } from './dutyCycle.ts';
import type { Reading, Shards, Stage } from './engine.ts';
import { StepRun } from './execute.ts';
import { type HeldState, move } from './moving.ts';
import { buildRole, type Engine, type Role } from './role.ts';
import type { Surroundings } from './surroundings.ts';
import { gatherAsReplica, gatherValues, sendToReplicas, sendValues } from './values.ts';

const TRAIN = { sequenceLength: 5 } as Train; // a role asks a run for no more
const STEP = 3;
const EPOCH = 7;
const reading: Reading = { take: async (use) => use(new Float32Array(1)) };
const nothing = (): void => undefined;

const stage: Stage = {
  ...{ begin: nothing, forward: nothing, recompute: nothing, backward: nothing },
  readOutput: async () => reading,
  readInputGradient: async () => reading,
  readLoss: async () => reading,
  readGradient: async () => reading,
  packGradient: async () => reading,
  writeGradient: nothing,
  writeValues: nothing,
  writeStanding: nothing,
  addValues: nothing,
  readValues: async () => reading,
  settled: async () => undefined,
  ...{ bytes: 0, close: nothing, free: nothing },
};
const shards: Shards = {
  ...{ bytes: 0, hostBytes: 0, begin: nothing, addOwn: nothing, addReceived: nothing },
  sumSquares: async () => [],
  update: nothing,
  readValues: async () => reading,
  packValues: async () => reading,
  readState: async () => new Float32Array(1),
  writeState: nothing,
  close: nothing,
};

/** Lines "from > to key" of what was sent, and of what was awaited. */
class Seen {
  readonly sent: string[] = [];
  readonly awaited: string[] = [];

  around(me: PeerId): Surroundings {
    return {
      signal: new AbortController().signal,
      now: () => 0,
      throttle: FULL_SPEED,
      links: [],
      lossScale: 1,
      send: async (to, key) => void this.sent.push(line(me, to, key)),
      receive: async (key, from) => {
        this.awaited.push(line(from, me, key));
        return new Float32Array(1);
      },
      tokens: async () => ({ ids: new Uint32Array(1), targets: new Uint32Array(1), firstRows: null }),
      report: nothing,
      committed: async () => ({ learningRate: 1, clipScale: 1, time: STEP + 1 }),
    };
  }

  /** Every one sent once and awaited once. */
  isExactly(list: readonly Passage[]): void {
    const listed = list.map(({ from, to, tensor }) => line(from, to, { ...tensor, epoch: EPOCH, step: STEP })).sort();
    expect(this.sent.sort()).toEqual(listed);
    expect(this.awaited.sort()).toEqual(listed);
  }
}

const line = (from: PeerId, to: PeerId, key: TensorKey): string => `${from} > ${to} ${keyText(key)}`;

function randomCase(seed: number) {
  const random = seededRandom(seed);
  const model = outlineModel(1 + Math.floor(random() * 5), random() < 0.5);
  const wire = (['f32', 'f16', 'int8', 'auto'] as const)[seed % 4] ?? 'f32';
  const sizes: Sizes = { model, sequence: TRAIN.sequenceLength, wire, asked: random() < 0.5 ? 'f32' : 'f16' };
  const plan = (count: number): Plan => {
    const made = randomPlanFor(random, model, 8, donors(count), { recompute: 0, replicas: 0.3 });
    const sent = seed % 3 === 0 ? { ...made, rows: 1 } : made;
    return wire === 'auto' ? withWires(sent, () => at(WIRE_ENCODINGS, below(random, WIRE_ENCODINGS.length))) : sent;
  };
  const engine = {
    ...{ wire, asked: 'f32', compute: 'f32' },
    warm: async () => undefined,
    stage: async () => stage,
    shards: async () => shards,
  };
  const role = (of: Plan, peer: PeerId): Promise<Role> =>
    buildRole(engine as unknown as Engine, model, TRAIN, of, peer, EPOCH);
  return { model, sizes, plan: plan(4), next: plan(5), role };
}

const SEEDS = Array.from({ length: 40 }, (_, seed) => seed);

describe('[PL25] [WI38] the plan’s list of tensors', () => {
  test.each(SEEDS)('is what a step and a round of an evaluation send (seed %d)', async (seed) => {
    const { model, sizes, plan, role } = randomCase(seed);
    const [step, round] = [new Seen(), new Seen()];
    for (const me of peers(plan)) {
      const own = await role(plan, me);
      await new StepRun(own, step.around(me), STEP).train(stepSchedule(plan).get(me) ?? [], true);
      await new StepRun(own, round.around(me), STEP, 0).evaluate(forwardOnly(plan).get(me) ?? [], () => true);
    }
    step.isExactly(stepTensors(model, plan, sizes));
    round.isExactly(heldOutTensors(model, plan, sizes));
  });

  test.each(SEEDS)('is what a plan that is tried again, and a change of plan, send (seed %d)', async (seed) => {
    const { model, sizes, plan, next, role } = randomCase(seed);
    const [again, change] = [new Seen(), new Seen()];
    for (const me of donors(5)) {
      const { send, receive } = again.around(me);
      const own = await role(plan, me);
      const sent = (to: PeerId, key: TensorKey, of: Reading): void => void of.take((values) => send(to, key, values));
      await sendValues(own, STEP, sent);
      await sendToReplicas(own, STEP, sent);
      for (let index = 0; index < plan.stages.length; index++) await gatherValues(own, index, STEP, receive);
      await gatherAsReplica(own, STEP, receive);
      const everything: Range = [0, 1_000];
      const had: HeldState = {
        ...{ epoch: 1, step: STEP },
        ranges: model.blocks.flatMap(({ name: block }) =>
          STATE_KINDS.map((kind) => ({
            block,
            kind,
            range: everything,
            values: new Float32Array(1_000),
          })),
        ),
      };
      const passing = change.around(me);
      await move({
        ...{
          model,
          kinds: STATE_KINDS,
          keptOnly: sizes.asked === 'f16',
          me,
          before: plan,
          after: next,
          epoch: EPOCH,
          step: STEP,
          had,
        },
        role: await role(next, me),
        send: passing.send,
        receive: (key, from) => passing.receive(key, from),
      });
    }
    again.isExactly(arrivalTensors(sizes, plan, { from: 'kept' }));
    change.isExactly(handoverTensors(model, STATE_KINDS, plan, next, sizes.asked === 'f16'));
  });
});

test('partners are who send each other something, and nobody else', () => {
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(peerId);
  if (!a || !b || !c || !d) throw new Error('four peers');
  const model = outlineModel(3, false);
  const sizes: Sizes = { model, sequence: 5, wire: 'f32', asked: 'f32' };
  // Three stages of one peer each: a line.
  const line = (...order: PeerId[]): Plan => ({
    stages: order.map((peer, layer) => ({
      layers: [layer, layer + 1],
      members: [{ peer, microBatches: [0], samples: 1, recompute: [] }],
    })),
    microBatches: [{ id: 0, samples: [0, 1] }],
    state: model.blocks.map(({ name, elements }, index) => ({
      block: name,
      shards: [{ peer: order[[0, 0, 1, 2, 2][index] ?? 0] ?? a, range: [0, elements], replicas: [] }],
    })),
    schedule: 'gpipe',
  });
  const told = (partners: ReturnType<typeof planPartners>) =>
    Object.fromEntries([...partners].map(([peer, others]) => [peer, [...others].sort().join('')]));
  expect(told(planPartners(sizes, line(a, b, c)))).toEqual({ a: 'b', b: 'ac', c: 'b' });
  // d takes c's place: c gives it the state, and completes its own step with b.
  const change = { plan: line(a, b, d), source: { from: 'peers', epoch: 1, plan: line(a, b, c) } } as const;
  expect(told(arrivalPartners(sizes, change))).toEqual({ a: 'b', b: 'acd', c: 'bd', d: 'bc' });
  expect(told(planPartners(sizes, line(a, b, d)))).toEqual({ a: 'b', b: 'ad', d: 'b' });
});
