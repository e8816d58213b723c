/** What a pass of a stage that gathers waits for, with a GPU and links of virtual time. */
import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { unitsOf } from '../../../swarm/memory/memory.ts';
import type { Gathered, Plan } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import { VirtualTime } from '../testing/virtualTime.ts';
import type { Reading, Stage } from './engine.ts';
import { Gathering } from './gathering.ts';
import { buildRole, type Engine } from './role.ts';

const [A, B] = [peerId('a'), peerId('b')];
const reading: Reading = { take: async (use) => use(new Float32Array(1)) };
/** Of a unit on its way. */
const GATHER_SECONDS = 5;

// An embedding, a layer and a head, each kept by the other donor.
test.each([
  [1, 2, 15, 21],
  [2, 2, 11, 17],
  [2, 8, 5, 29],
] as const)(
  '%d whole at a time, %d s of work each: the GPU waits %d of %d s',
  async (gathered: Gathered, computeSeconds, idleSeconds, passSeconds) => {
    const clock = new VirtualTime();
    let busyUntil = 0;
    const model = outlineModel(1, false);
    const stage: Partial<Stage> = {
      units: unitsOf(model, [0, 1], true),
      writeUnit: () => undefined,
      clearUnit: () => undefined,
      readGradient: async () => reading,
      settled: () => clock.wait(Math.max(0, busyUntil - clock.now())),
    };
    const shards = { readValues: async () => reading };
    const engine = {
      asked: 'f32',
      compute: 'f32',
      wire: 'f32',
      warm: async () => undefined,
      stage: async () => stage,
      shards: async () => shards,
    };
    const split = equalSplit(model, 2, [A, B], { stages: 1, microBatches: 2, schedule: 'gpipe' });
    const state = model.blocks.map(({ name, elements }) => ({
      block: name,
      shards: [{ peer: B, range: [0, elements] as const, replicas: [] }],
    }));
    const plan: Plan = { ...split, stages: split.stages.map((one) => ({ ...one, gathered })), state };
    const role = await buildRole(engine as unknown as Engine, model, { sequenceLength: 4 } as Train, plan, A, 1);
    const gathering = new Gathering(role, 0, null, {
      now: () => clock.now(),
      receive: async () => {
        await clock.wait(GATHER_SECONDS);
        return new Float32Array(1);
      },
      send: () => undefined,
      awaited: () => undefined,
    });
    let took = 0;
    void (async () => {
      await gathering.pass(0, [0], 'F', () => {
        busyUntil = Math.max(busyUntil, clock.now()) + computeSeconds;
      });
      await stage.settled?.();
      took = clock.now();
    })();
    await clock.run();
    expect([gathering.idle.seconds, took]).toEqual([idleSeconds, passSeconds]);
  },
);
