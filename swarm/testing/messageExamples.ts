/** For tests: one valid message of every type, with every optional field, from both sides. */
import { peerId } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import { type PeerMessage, PROTOCOL_VERSION, type ServerMessage } from '../messages/messages.ts';
import type { Snapshot } from '../messages/snapshot.ts';
import type { Plan } from '../plan/plan.ts';

const [A, B] = [peerId('a'), peerId('b')];
const HASH = 'a'.repeat(64);
const ADAPTER = { vendor: 'v', architecture: 'a', description: 'd', software: true, browser: 'b' };
const LINK = { peer: B, route: 'direct', roundTripMs: 3, bytesPerSecond: 1e6 } as const;
const LOSSES = [{ microBatch: 0, lossSum: 2.5 }];

const PLAN: Plan = {
  stages: [{ layers: [0, 2], members: [{ peer: A, microBatches: [0], samples: 4, recompute: [1] }] }],
  microBatches: [{ id: 0, samples: [0, 4] }],
  state: [{ block: 'head', shards: [{ peer: A, range: [0, 16], replicas: [B] }] }],
  schedule: 'gpipe',
  islands: [0],
};

const SNAPSHOT: Snapshot = {
  ...{ run: 'r', phase: 'training', sentence: 's', generation: 0, epoch: 1, committedSteps: 2, steps: 3 },
  ...{ loss: 2.5, evaluationLoss: null, tokensPerSecond: 10 },
  donors: [{ peer: A, adapter: ADAPTER, state: 'computing', stages: [{ stage: 0, layers: [0, 2] }], tokens: 7 }],
  links: [{ ...LINK, from: A }],
  turnErrors: [{ url: 'turn:t.example:3478', code: 401, donors: 2 }],
  limit: { epoch: 2, kind: 'compute', peers: [A], gain: 0.25 },
  planning: {
    ...{
      epoch: 1,
      reason: 'r',
      predictedSeconds: 1,
      measuredSeconds: null,
      reasons: [{ peer: null, text: 'x' }],
      verdict: null,
    },
  },
};

export const PEER_EXAMPLES: readonly PeerMessage[] = [
  {
    ...{ type: 'hello', protocol: PROTOCOL_VERSION, adapter: ADAPTER, invite: 'i', limits: NO_LIMITS },
    key: 'a-key-of-a-browser',
    resume: { peer: A, key: 'k', heard: 3 },
  },
  {
    type: 'measured',
    profile: {
      layers: [{ samples: 1, forwardSeconds: 0.1, backwardSeconds: 0.2 }],
      ...{ memoryBytes: 1e9, memoryTriedBytes: 2e9, checkedKernels: 20 },
      deviceLimits: {
        ...{ bufferBytes: 2 ** 32, bindingBytes: 2 ** 31, storageBuffers: 8 },
        ...{ workgroupBytes: 16_384, invocations: 256 },
      },
      mainMemory: { sumSeconds: 1e-8, updateSeconds: 2e-8 },
    },
  },
  { type: 'limits', limits: { ...NO_LIMITS, speed: 0.5 } },
  { type: 'heartbeat' },
  { type: 'signal', to: B, epoch: 1, attempt: 0, data: 'offer' },
  { type: 'warmed', number: 3 },
  { type: 'ready', epoch: 1, memoryBytes: 12 },
  {
    ...{ type: 'report', epoch: 1, step: 0, losses: LOSSES, bytesDirect: 1, bytesRelayed: 0 },
    shards: [{ block: 'head', range: [0, 16], sumSquares: 0.5, digests: [HASH.slice(0, 22)] }],
    spans: [{ action: '0F0', start: 1, end: 2, aloneSeconds: 0.8 }],
    behind: { step: 0, spans: [{ action: 'MEET', start: 0, end: 1 }] },
    links: [LINK],
    turnErrors: [{ url: 'turn:t.example:3478', code: 401 }],
    committed: [HASH.slice(0, 22)],
  },
  { type: 'probed', peer: B, roundTripMs: 3, bytesPerSecond: null },
  { type: 'evaluated', epoch: 1, step: 0, losses: LOSSES },
  { type: 'uploaded', epoch: 1, step: 2, shards: [{ block: 'head', range: [0, 16], hash: HASH }] },
  {
    ...{ type: 'met', epoch: 1, round: 0, attempt: 2, bytesDirect: 1, bytesRelayed: 0 },
    digests: [{ block: 'head', range: [0, 16], digest: HASH.slice(0, 22) }],
  },
  { type: 'fault', epoch: 1, reason: 'linkLost', about: B, detail: 'd' },
  { type: 'resumed', generation: 0, role: { epoch: 1, step: 2 }, handedOver: null },
  { type: 'answered', epoch: 3, piece: 9, stage: 1, steps: 40, seconds: 0.02, tokens: [7, 0] },
  { type: 'unanswered', epoch: 3, piece: 9, stage: 1, reason: 'gone', conversations: [4] },
  { type: 'pause' },
  { type: 'resume' },
  { type: 'leave' },
];

export const SERVER_EXAMPLES: readonly ServerMessage[] = [
  { type: 'helloAgain' },
  {
    ...{
      type: 'welcome',
      protocol: PROTOCOL_VERSION,
      peer: A,
      token: 't',
      resumeKey: 'k',
      heard: null,
      iceServers: [{ urls: 'stun:a' }],
    },
    run: {
      name: 'r',
      model: { model_type: 'gpt2' },
      train: {
        ...{ steps: 3, globalBatchSize: 4, sequenceLength: 8, gradientClipNorm: null },
        optimizer: { type: 'adamw', learningRate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0 },
        schedule: { type: 'constant', warmupSteps: 0 },
      },
      data: { tokens: 9, shardTokens: 9, bytesPerToken: 1, shards: [HASH] },
      order: { type: 'sequential' },
      evaluation: {
        ...{ kind: 'rows', tokens: 24, shardTokens: 24, bytesPerToken: 2, shards: [HASH], counted: HASH },
      },
      wire: 'f32',
    },
    ...{ generation: 0, epoch: 1, committedSteps: 2 },
    lastCommit: { epoch: 1, step: 1, clipScale: 0.5, learningRate: 0.01 },
    memory: { draftedBytes: 5, known: { memoryBytes: 4, memoryTriedBytes: 5 } },
  },
  { type: 'refused', reason: 'malformed', detail: 'd', retrySeconds: 60 },
  { type: 'signal', from: A, epoch: 1, attempt: 0, data: 'answer' },
  {
    ...{ type: 'prepare', epoch: 2, generation: 0, step: 2, plan: PLAN },
    source: { from: 'peers', epoch: 1, plan: PLAN },
    audited: true,
  },
  { type: 'warm', number: 3, epoch: 2, step: 2, plan: PLAN },
  { type: 'start', epoch: 1, step: 2, counted: 57 },
  { type: 'evaluate', epoch: 1, step: 2 },
  { type: 'save', epoch: 1, step: 2, excused: [A] },
  {
    ...{ type: 'committed', epoch: 1, step: 2, clipScale: 1, learningRate: 0.1, checkpoint: true },
    evidence: [{ audit: 3, stage: 0, peer: A }],
  },
  {
    ...{ type: 'meet', epoch: 1, round: 0, attempt: 2, steps: [2, 1], relayed: [B] },
    groups: [
      { epoch: 1, islands: [0], state: PLAN.state },
      { epoch: 2, islands: [1], state: PLAN.state },
    ],
  },
  { type: 'meetingOver', epoch: 1, round: 0 },
  { type: 'abandon', epoch: 1, detail: 'd' },
  { type: 'snapshot', snapshot: SNAPSHOT },
  { type: 'limits', downloads: [{ peer: A, bytesPerSecond: 1e6 }] },
  {
    ...{ type: 'answer', epoch: 3, piece: 9, stage: 0, from: null, to: B },
    parts: [
      { conversation: 4, at: 0, rows: 2, ids: [5, 6], draw: null },
      { conversation: 5, at: 7, rows: 1, ids: [8], draw: { temperature: 0.5, topP: 0.25, seed: 3, number: 2 } },
    ],
    ended: [1],
  },
  { type: 'probe', peer: B, epoch: 1 },
  { type: 'standby', state: 'spare', why: 'queued', place: 3 },
];
