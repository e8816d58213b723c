import { expect, test } from 'vitest';
import { invariant, type PeerId, peerId } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { NO_LIMITS } from '../limits.ts';
import { profile } from '../testing/plannedRun.ts';
import { knownDonor, type PlanningConfig, searchProblem } from './knownDonors.ts';
import { beginReplanning, replan } from './replanner.ts';

/** Its table has 309 MB, as GPT-2 XL's has 322. */
const [VOCABULARY, WIDTH, POSITIONS] = [50_257, 1536, 16];
const CONFIG: PlanningConfig = {
  model: {
    ...{ model_type: 'gpt2', n_layer: 3, n_head: 12 },
    ...{ n_embd: WIDTH, n_positions: POSITIONS, vocab_size: VOCABULARY },
  },
  batch: { samples: 2, sequence: POSITIONS },
  wishes: { replicas: 0 },
};
const GUARANTEED_BYTES = 268_435_456;
const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];

const measured = (bufferBytes: number) => ({
  ...profile(0.01),
  deviceLimits: {
    ...{ bufferBytes, bindingBytes: bufferBytes / 2, storageBuffers: 8 },
    ...{ workgroupBytes: 16_384, invocations: 256 },
  },
});

const joining = (peer: PeerId, bufferBytes: number) => ({
  ...{ peer, limits: NO_LIMITS, profile: measured(bufferBytes), rememberedAs: null, remembered: null },
  ...{ hasHalves: false, address: peer, isOwn: false },
});

/** The plan for donors who join in this order, each with what its GPU keeps in one buffer. */
function answerFor(donors: readonly (readonly [PeerId, number])[], config = CONFIG): PlanAnswer {
  let state = beginReplanning(config);
  const view = { offer: donors.map(([peer]) => peer), plan: null, epoch: 0 };
  for (const [peer, bufferBytes] of donors)
    [state] = replan(state, { type: 'donorJoined', ...joining(peer, bufferBytes) }, 0, view);
  const offer = view.offer.map((peer) => ({ peer, memoryBytes: null, isNeeded: false }));
  const [, effects] = replan(state, { type: 'planWanted', ask: 0, purpose: 'now', offer, inForce: null }, 0, view);
  const planned = effects.find((effect) => effect.type === 'planned');
  invariant(planned, 'an answer');
  return planned.answer;
}

test('[KE45] a donor with buffers of 256 MiB gets layers, and others the token table that is past them', () => {
  const answer = answerFor([
    [A, GUARANTEED_BYTES],
    [B, 2 ** 30],
    [C, 2 ** 30],
  ]);
  invariant(answer.answer === 'plan', 'a plan');
  const members = answer.plan.stages.map((stage) => stage.members.map(({ peer }) => peer));
  expect(members).toEqual([[B], [A], [C]]);
});

test('[KE45] of two donors the one with buffers of 256 MiB is left out', () => {
  for (const donors of [[A, B] as const, [B, A] as const]) {
    const answer = answerFor(donors.map((peer) => [peer, peer === A ? GUARANTEED_BYTES : 2 ** 30]));
    invariant(answer.answer === 'plan', 'a plan');
    expect(answer.plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([[B]]);
  }
});

test('[KE45] where every donor has buffers of 256 MiB the run waits, with the tensor, its bytes and the limit', () => {
  const bytes = 4 * WIDTH * (VOCABULARY + POSITIONS);
  expect(answerFor([[A, GUARANTEED_BYTES]])).toEqual({
    answer: 'none',
    reason: `the model does not fit these donors: the tensor values/embedding has ${bytes} bytes (295 MiB), and the GPU of donor 0 takes at most ${GUARANTEED_BYTES} (256 MiB) in one buffer`,
  });
});

test('[KE45] the planner hears of each donor’s largest buffer', () => {
  const donors = [knownDonor(CONFIG, joining(A, GUARANTEED_BYTES)), knownDonor(CONFIG, joining(B, 2 ** 33))];
  const { cluster } = searchProblem(CONFIG, donors, [A, B]);
  expect(cluster.peers.map(({ bufferBytes }) => bufferBytes)).toEqual([GUARANTEED_BYTES, 2 ** 33]);
  expect(cluster.peers.map(({ bindingBytes }) => bindingBytes)).toEqual([GUARANTEED_BYTES / 2, 2 ** 32]);
});

test('a donor with what WebGPU guarantees trains GPT-2’s token table alone', () => {
  const answer = answerFor([[A, GUARANTEED_BYTES]], { ...CONFIG, model: { ...CONFIG.model, n_embd: 768 } });
  invariant(answer.answer === 'plan', 'a plan');
  expect(answer.plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([[A]]);
});
