import { expect, test } from 'vitest';
import { invariant, type PeerId, peerId } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { NO_LIMITS } from '../limits.ts';
import { profile } from '../testing/plannedRun.ts';
import { knownDonor, type PlanningConfig, searchProblem } from './knownDonors.ts';
import { beginReplanning, replan } from './replanner.ts';

const [VOCABULARY, WIDTH, POSITIONS] = [50_257, 768, 16];
const CONFIG: PlanningConfig = {
  model: {
    ...{ model_type: 'gpt2', n_layer: 3, n_head: 12 },
    ...{ n_embd: WIDTH, n_positions: POSITIONS, vocab_size: VOCABULARY },
  },
  batch: { samples: 2, sequence: POSITIONS },
  wishes: { replicas: 0 },
};
const GUARANTEED_BYTES = 134_217_728;
const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];

const measured = (bindingBytes: number) => ({
  ...profile(0.01),
  deviceLimits: {
    ...{ bufferBytes: 2 ** 32, bindingBytes, storageBuffers: 8 },
    ...{ workgroupBytes: 16_384, invocations: 256 },
  },
});

const joining = (peer: PeerId, bindingBytes: number) => ({
  ...{ peer, limits: NO_LIMITS, profile: measured(bindingBytes), rememberedAs: null, remembered: null },
  ...{ hasHalves: false, address: peer, isOwn: false },
});

/** The plan for donors who join in this order, each with what its GPU binds. */
function answerFor(donors: readonly (readonly [PeerId, number])[]): PlanAnswer {
  let state = beginReplanning(CONFIG);
  const view = { offer: donors.map(([peer]) => peer), plan: null, epoch: 0 };
  for (const [peer, bindingBytes] of donors)
    [state] = replan(state, { type: 'donorJoined', ...joining(peer, bindingBytes) }, 0, view);
  const offer = view.offer.map((peer) => ({ peer, memoryBytes: null, isNeeded: false }));
  const [, effects] = replan(state, { type: 'planWanted', ask: 0, purpose: 'now', offer, inForce: null }, 0, view);
  const planned = effects.find((effect) => effect.type === 'planned');
  invariant(planned, 'an answer');
  return planned.answer;
}

test('[KE45] a donor that binds 128 MiB gets layers of GPT-2’s width, and others the token table', () => {
  const answer = answerFor([
    [A, GUARANTEED_BYTES],
    [B, 2 ** 30],
    [C, 2 ** 30],
  ]);
  invariant(answer.answer === 'plan', 'a plan');
  const members = answer.plan.stages.map((stage) => stage.members.map(({ peer }) => peer));
  expect(members).toEqual([[B], [A], [C]]);
});

test('[KE45] of two donors the one that binds 128 MiB is left out', () => {
  for (const donors of [[A, B] as const, [B, A] as const]) {
    const answer = answerFor(donors.map((peer) => [peer, peer === A ? GUARANTEED_BYTES : 2 ** 30]));
    invariant(answer.answer === 'plan', 'a plan');
    expect(answer.plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([[B]]);
  }
});

test('[KE45] where every donor binds 128 MiB the run waits, with the tensor, its bytes and the limit', () => {
  const bytes = 4 * WIDTH * (VOCABULARY + POSITIONS);
  expect(answerFor([[A, GUARANTEED_BYTES]])).toEqual({
    answer: 'none',
    reason: `the model does not fit these donors: the tensor values/embedding has ${bytes} bytes (147 MiB), and the GPU of donor 0 takes at most ${GUARANTEED_BYTES} (128 MiB) in one buffer`,
  });
});

test('[KE45] the planner hears of each donor’s largest buffer', () => {
  const donors = [knownDonor(CONFIG, joining(A, GUARANTEED_BYTES)), knownDonor(CONFIG, joining(B, 2 ** 33))];
  const { cluster } = searchProblem(CONFIG, donors, [A, B]);
  expect(cluster.peers.map(({ bufferBytes }) => bufferBytes)).toEqual([GUARANTEED_BYTES, 2 ** 32]);
});
