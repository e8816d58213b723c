/**
 * The executor's engine on whole numbers: what `web/src/gpu` is to a GPU this is to a queue of simulated work. What is
 * submitted is computed at once and is there when the queue has come to it, as a copy in a GPU's queue would be.
 */
import { got, invariant, overlap, totalOf } from '../../../../swarm/base.ts';
import { type ShardWork, shardsOf, unitsOf } from '../../../../swarm/memory/memory.ts';
import type { Model } from '../../../../swarm/model/model.ts';
import { passesOf } from '../../../../swarm/plan/layered.ts';
import { gatheringHome, type Plan } from '../../../../swarm/plan/plan.ts';
import type { Engine } from '../../executor/role.ts';
import type { Device } from './device.ts';
import { ExactShards, type Kept, type Otherwise, type Witness } from './exactShards.ts';
import { ExactStage } from './exactStage.ts';
import type { Values } from './integers.ts';
import { PLAIN } from './pace.ts';

export function exactEngine(device: Device, witness: Witness, model: Model, otherwise: Otherwise = {}): Engine {
  const unknown = (elements: number): Values => new Float32Array(elements).fill(Number.NaN);
  return {
    ...{ wire: 'f32', asked: 'f32', compute: 'f32' },
    stage: async (size) => new ExactStage(device, model, size, otherwise.pace ?? PLAIN),
    warm: () => device.compiles(),
    answers: () => Promise.reject(new Error('whole numbers answer nothing')),
    async shards(plan, peer, stages) {
      const kept = shardsOf(model, plan, peer).map((work): Kept => {
        const own = work.valuesStage === null ? null : got(stages, work.valuesStage);
        invariant(own === null || own instanceof ExactStage, 'a stage of this engine');
        const [stage, shownTo] = work.in === 'host' ? [null, own] : [own, null];
        const elements = work.range[1] - work.range[0];
        const state = { value: unknown(elements), m: unknown(elements), v: unknown(elements) };
        const expected = work.holders.length + sharesOf(model, plan, work);
        const sum = new Float64Array(elements);
        return { work, own: state, stage, shownTo, expected, sum, parts: 0, late: null, busy: null };
      });
      return new ExactShards(device, witness, kept, otherwise);
    },
  };
}

/** Gradients of what is gathered: of each pass one, of a tied table that its own stage's head computes with two. */
function sharesOf(model: Model, plan: Plan, { block, range }: Pick<ShardWork, 'block' | 'range'>): number {
  const home = gatheringHome(plan, block);
  if (!home) return 0;
  const uses = unitsOf(model, home.layers, home.layers[0] === 0).flat();
  const own = uses.filter((use) => use.block === block && use.ranges.some((part) => overlap(part, range)));
  return own.length * totalOf(home.members, (member) => passesOf(home, member).length);
}
