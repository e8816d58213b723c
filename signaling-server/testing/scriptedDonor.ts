/**
 * A donor without a GPU, for the server's tests: it speaks the protocol as a page does, and answers every request with
 * numbers that are a pure function of the step. What it uploads has moved a little with every step.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RawData, WebSocket } from 'ws';
import { arrayOf, invariant, type PeerId, type Range } from '../../swarm/base.ts';
import {
  decodeServerMessage,
  HEARTBEAT_MS,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ReportMessage,
  type ServerMessage,
  type StepProgress,
} from '../../swarm/messages/messages.ts';
import type { AdapterProfile, Profile } from '../../swarm/messages/profile.ts';
import { Spoken } from '../../swarm/messages/spoken.ts';
import { acceptedModel } from '../../swarm/model/acceptedModel.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { initialReader } from '../../swarm/model/initialValues.ts';
import type { BlockName } from '../../swarm/model/model.ts';
import { keepersOf, type Plan, peers, type Shard } from '../../swarm/plan/plan.ts';
import { uploaderOf, uploadsOf } from '../../swarm/plan/uploader.ts';
import { sketchOf } from '../../swarm/run/stateSketch.ts';
import { comparedShards, onlySent } from '../../swarm/ways/compared.ts';
import { scriptedSpans } from './scriptedSpans.ts';

export const SCRIPTED_ADAPTER: AdapterProfile = {
  vendor: 'none',
  architecture: 'scripted',
  description: 'a test',
  software: true,
  browser: 'none',
};

export const SCRIPTED_PROFILE: Profile = { layers: [], memoryBytes: 1e9, checkedKernels: 0 };

type Said<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>;

/** Of the initial values: every test's run has this one. */
const SEED = 1;
const MOVED_A_STEP = 1e-3;

/** Of what it said, for a conversation that goes on where it was. */
const KEPT_LENGTH = 1_000_000;
/** No words of a conversation. */
const UNCOUNTED: ReadonlySet<ServerMessage['type']> = new Set(['welcome', 'refused', 'snapshot']);

interface StateShard {
  readonly epoch: number;
  readonly step: number;
  readonly block: BlockName;
  readonly range: Range;
}

/** Loss of a step, whatever the plan: it falls, and never so far that nobody would believe it. */
export const scriptedLoss = (step: number): number => 2 + 3 / (1 + step / 10);
export const scriptedEvaluation = (committedSteps: number): number => 2 + 2 / (1 + committedSteps / 10);

interface ScriptedOptions {
  /** It says hello by itself. */
  readonly greets?: boolean;
  /** It says what it measured by itself, once it is welcomed. */
  readonly measures?: boolean;
  readonly invite?: string | undefined;
  /** The key of the operator's own donors. */
  readonly own?: string | undefined;
  readonly run?: string;
  readonly key?: string | undefined;
  /** Whom it says to have been. */
  readonly resume?: { readonly peer: PeerId; readonly key: string; readonly heard?: number } | undefined;
  readonly profile?: Profile;
  /** From which it seems to come, to a server that trusts this machine as a proxy. */
  readonly address?: string;
  /** So long it computes before it reports a step. */
  readonly stepMs?: number;
  /** What it says in place of a message; null: nothing. */
  readonly lie?: (message: PeerMessage) => PeerMessage | null;
  /** False: it never uploads of itself. */
  readonly uploads?: boolean;
  /** Values after so many steps, in place of initial ones that have moved a little. */
  readonly values?: (step: number, block: BlockName) => Float32Array;
  /** What it uploads in place of a shard's floats. */
  readonly forge?: (shard: Float32Array<ArrayBuffer>) => Float32Array<ArrayBuffer>;
}

const digestAt = (step: number): string => step.toString(16).padStart(22, 'd');

export class ScriptedDonor {
  readonly received: ServerMessage[] = [];
  /** Binary messages: what other donors had relayed. */
  readonly relayed: Uint8Array[] = [];
  readonly closed: Promise<void>;
  /** Whether it does what the server asks, or only listens. */
  obedient = true;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #options: ScriptedOptions;
  readonly #socket: WebSocket;
  readonly #waiting = new Set<() => void>();
  #welcome: Said<'welcome'> | null = null;
  #spoken = new Spoken<string>();
  /** How far it is with the step that it began last. */
  #at: StepProgress | null = null;
  #plan: { readonly epoch: number; readonly generation: number; readonly plan: Plan } | null = null;

  /** One that the server has taken in. */
  static async joined(url: string, options: ScriptedOptions = {}): Promise<ScriptedDonor> {
    const donor = new ScriptedDonor(url, options);
    await donor.hears('welcome');
    return donor;
  }

  constructor(url: string, options: ScriptedOptions = {}) {
    const { greets = true, address, run = '' } = options;
    this.#url = url;
    this.#options = options;
    this.#headers = address === undefined ? {} : { 'x-forwarded-for': address };
    this.#socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/donor?run=${run}`, { headers: this.#headers });
    const alive = setInterval(() => {
      if (this.#welcome && this.obedient) this.say({ type: 'heartbeat', ...(this.#at && { at: this.#at }) });
    }, HEARTBEAT_MS);
    this.closed = new Promise((resolve) => this.#socket.on('close', () => resolve(clearInterval(alive))));
    this.#socket.on('error', () => {}); // the close that follows says it
    this.#socket.on('message', (data, isBinary) => this.#received(data, isBinary));
    this.opened = new Promise((resolve) => {
      this.#socket.on('open', () => {
        if (greets) this.#greet();
        resolve();
      });
    });
  }

  readonly opened: Promise<void>;

  get welcome(): Said<'welcome'> {
    invariant(this.#welcome, 'this donor was not welcomed yet');
    return this.#welcome;
  }

  #greet(): void {
    const { invite, own, key, resume } = this.#options;
    const { heard } = this.#spoken;
    const was = this.#welcome ? { peer: this.#welcome.peer, key: this.#welcome.resumeKey, heard } : resume;
    const hello = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER } as const;
    this.say({ ...hello, invite, own, key, resume: was && { heard: 0, ...was } });
  }

  say(message: PeerMessage): void {
    const { lie } = this.#options;
    const said = lie ? lie(message) : message;
    if (said === null) return;
    const text = JSON.stringify(said);
    if (said.type !== 'hello' && said.type !== 'heartbeat') this.#spoken.say(text, KEPT_LENGTH);
    this.sayRaw(text);
  }

  sayRaw(data: string | Uint8Array): void {
    this.#socket.send(data);
  }

  /** The server has dealt with all that was said, and all that it sent before is here; or the connection has ended. */
  async settled(): Promise<void> {
    const answered = new Promise<void>((resolve) => this.#socket.once('pong', resolve));
    this.#socket.ping();
    await Promise.race([answered, this.closed]);
  }

  /** On another connection, as a page does whose own has ended: it says that it has what is committed. */
  async comeBack(url = this.#url): Promise<ScriptedDonor> {
    const { peer, resumeKey: key } = this.welcome;
    const donor = await ScriptedDonor.joined(url, { ...this.#options, resume: { peer, key } });
    donor.#plan = this.#plan;
    if (donor.welcome.peer === peer) donor.#resume();
    return donor;
  }

  #resume(): void {
    const { epoch, generation } = this.#plan ?? { epoch: 0, generation: 0 };
    const role = this.#plan && { epoch, step: this.welcome.committedSteps };
    this.say({ type: 'resumed', generation, role, handedOver: null });
  }

  leave(): void {
    this.#socket.close();
  }

  /** As if its machine had lost power. */
  vanish(): void {
    this.#socket.terminate();
  }

  heardCount(type: ServerMessage['type']): number {
    return this.received.filter((message) => message.type === type).length;
  }

  /** The first message of this type, come or to come, that `fits`. */
  async hears<Type extends ServerMessage['type']>(
    type: Type,
    fits: (message: Said<Type>) => boolean = () => true,
  ): Promise<Said<Type>> {
    const matches = (message: ServerMessage): message is Said<Type> =>
      message.type === type && fits(message as Said<Type>);
    for (;;) {
      const found = this.received.find(matches);
      if (found) return found;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Looked at anew after each message; rejects where its connection ends before. */
  async until(holds: () => boolean): Promise<void> {
    const ended = this.closed.then(() => Promise.reject(new Error(`the connection ended: ${this.#refusal()}`)));
    ended.catch(() => {}); // later than anybody waits here it is no fault
    while (!holds()) await Promise.race([new Promise<void>((resolve) => this.#waiting.add(resolve)), ended]);
  }

  #refusal(): string {
    const refused = this.received.find(({ type }) => type === 'refused');
    return refused?.type === 'refused' ? refused.detail : 'nobody said why';
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.#url}${path}`, {
      ...init,
      headers: { ...this.#headers, authorization: `Bearer ${this.welcome.token}`, ...init.headers },
    });
  }

  /** A binary message has come, or comes. */
  async hearsBytes(): Promise<void> {
    while (this.relayed.length === 0) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  #received(data: RawData, isBinary: boolean): void {
    if (isBinary) this.relayed.push(Buffer.isBuffer(data) ? data : Buffer.from(data as ArrayBuffer));
    else this.#understand(String(data));
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  #understand(text: string): void {
    const message = decodeServerMessage(text);
    if (!message.ok) throw new Error(`the server said what no page understands: ${message.reason}: ${text}`);
    if (message.value.type === 'helloAgain') this.#greet();
    else if (!UNCOUNTED.has(message.value.type)) this.#spoken.heard += 1;
    if (message.value.type === 'welcome') {
      const isStill = this.#welcome?.peer === message.value.peer;
      this.#welcome = message.value;
      const { heard } = message.value;
      for (const unheard of heard === null ? [] : (this.#spoken.unheard(heard) ?? [])) this.sayRaw(unheard);
      if (heard === null) this.#spoken = new Spoken();
      const { greets = true, measures = true } = this.#options;
      if (greets && measures && heard === null)
        this.say({ type: 'measured', profile: this.#options.profile ?? SCRIPTED_PROFILE });
      if (isStill && heard === null) this.#resume();
    }
    if (this.obedient) void this.#followConditions(message.value);
    this.received.push(message.value);
  }

  async #followConditions(message: ServerMessage): Promise<void> {
    switch (message.type) {
      case 'warm':
        return this.say({ type: 'warmed', number: message.number });
      case 'prepare':
        this.#plan = message;
        // One without a place in the new plan only hands its state over.
        if (!peers(message.plan).includes(this.welcome.peer)) return;
        return this.say({ type: 'ready', epoch: message.epoch, memoryBytes: 1_000_000 });
      case 'start':
        this.#at = { epoch: message.epoch, step: message.step, done: 0, waitsFor: [], hasReported: false };
        if (this.#options.stepMs !== undefined) await sleep(this.#options.stepMs);
        return this.#report(message.epoch, message.step);
      case 'evaluate':
        this.#evaluate(message.epoch, message.step);
        if (this.#at) this.#at = { ...this.#at, epoch: message.epoch, hasEvaluated: true };
        return;
      case 'committed':
        if (message.checkpoint && this.#options.uploads !== false)
          await this.#upload({ ...message, step: message.step + 1 });
        return;
      case 'save':
        return this.#upload(message);
    }
  }

  /** Losses of these samples, so that their mean is `loss`. */
  #losses(loss: number, samples: readonly { id: number; count: number }[]) {
    const { sequenceLength } = this.welcome.run.train;
    return samples.map(({ id, count }) => ({ microBatch: id, lossSum: loss * count * sequenceLength }));
  }

  /** The micro-batches whose loss it computes. */
  #last(plan: Plan) {
    const own = plan.stages.at(-1)?.members.find(({ peer }) => peer === this.welcome.peer)?.microBatches ?? [];
    return plan.microBatches.filter(({ id }) => own.includes(id));
  }

  #reportedShards(plan: Plan, step: number): ReportMessage['shards'] {
    const { peer: me } = this.welcome;
    return plan.state.flatMap(({ block, shards }) =>
      shards
        .filter((shard) => keepersOf(shard).includes(me))
        .map((shard) => ({
          ...{ block, range: shard.range, sumSquares: 0.25 },
          digests: this.#digests(plan, step, shard),
        })),
    );
  }

  /** The same of every slice of a step. */
  #digests(plan: Plan, step: number, shard: Shard): string[] | null {
    const compared = comparedShards(acceptedModel(this.welcome.run), plan);
    return compared.find((one) => one.shard === shard)?.slices.map(() => digestAt(step)) ?? null;
  }

  #sent(plan: Plan, step: number): Pick<ReportMessage, 'sent'> {
    const sent = onlySent(comparedShards(acceptedModel(this.welcome.run), plan), this.welcome.peer);
    return sent.length > 0 ? { sent: sent.map(() => digestAt(step)) } : {};
  }

  #report(epoch: number, step: number): void {
    const plan = this.#planOf(epoch);
    if (plan === null) return;
    const samples = this.#last(plan).map(({ id, samples: [from, to] }) => ({ id, count: to - from }));
    if (this.#at) this.#at = { ...this.#at, done: 1, hasReported: true };
    this.say({
      type: 'report',
      epoch,
      step,
      losses: this.#losses(scriptedLoss(step), samples),
      shards: this.#reportedShards(plan, step),
      ...this.#sent(plan, step),
      bytesDirect: peers(plan).length > 1 ? 100 : 0,
      bytesRelayed: 0,
      spans: scriptedSpans(plan, this.welcome.peer, this.#options.stepMs),
    });
  }

  #evaluate(epoch: number, step: number): void {
    const plan = this.#planOf(epoch);
    if (plan === null || this.#last(plan).length === 0) return;
    const { evaluation, train } = this.welcome.run;
    const windows = Math.floor(((evaluation?.tokens ?? 1) - 1) / train.sequenceLength);
    const counted = this.#last(plan).map(({ id, samples: [from, to] }) => {
      const inRound = (window: number) => from <= window % train.globalBatchSize && window % train.globalBatchSize < to;
      return { id, count: arrayOf(windows, (window) => window).filter(inRound).length };
    });
    const losses = this.#losses(scriptedEvaluation(step), counted);
    this.say({ type: 'evaluated', epoch, step, losses });
  }

  async #upload({ epoch, step, excused }: Omit<Said<'save'>, 'type'>): Promise<void> {
    const plan = this.#planOf(epoch);
    if (plan === null) return;
    const shards = [];
    for (const { block, range } of uploadsOf(plan, this.welcome.peer, excused)) {
      const shard = { epoch, step, block, range };
      const state = this.#options.forge?.(this.stateOf(step, block, range));
      let response = await this.upload(shard, state).catch(() => null);
      if (response?.status === 422) response = await this.upload(shard, state).catch(() => null);
      while (response?.status === 507) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        response = await this.upload(shard, state).catch(() => null);
      }
      if (!response?.ok) return; // nobody wants it, or the server has closed in the middle of it
      const answer: unknown = await response.json();
      const hash = typeof answer === 'object' && answer && 'hash' in answer ? String(answer.hash) : '';
      shards.push({ block, range, hash });
    }
    const copies = plan.state.flatMap(({ block, shards: all }) =>
      all.flatMap((one) => {
        const { peer } = this.welcome;
        if (!keepersOf(one).includes(peer) || uploaderOf(one, excused) === peer) return [];
        const { range } = one;
        const state = this.stateOf(step, block, range);
        const digest = createHash('sha256').update(new Uint8Array(state.buffer, state.byteOffset, state.byteLength));
        const { sums } = sketchOf(SEED, range[0], state, 3);
        return { block, range, hash: digest.digest('hex'), seed: SEED, sums: sums.map((one) => [...one]) };
      }),
    );
    if (shards.length + copies.length > 0) this.say({ type: 'uploaded', epoch, step, shards, copies });
  }

  /** Its shard of the state after `step` steps, or these bytes in its place. */
  upload({ epoch, step, block, range: [from, to] }: StateShard, state?: Float32Array<ArrayBuffer>): Promise<Response> {
    const path = `/api/state?epoch=${epoch}&step=${step}&block=${block}&from=${from}&to=${to}`;
    const headers = { 'content-type': 'application/octet-stream' };
    const body = new Uint8Array((state ?? this.stateOf(step, block, [from, to])).buffer);
    return this.fetch(path, { method: 'PUT', body, headers });
  }

  /** Values, and moments that are zero. */
  stateOf(step: number, block: BlockName, [from, to]: Range): Float32Array<ArrayBuffer> {
    const state = new Float32Array(3 * (to - from));
    const { values } = this.#options;
    if (values) {
      state.set(values(step, block).subarray(from, to));
      return state;
    }
    const model = modelFromConfig(this.welcome.run.model);
    invariant(model.ok, 'the run has a model');
    state.set(initialReader(model.value, SEED)(block, from, to).map((value) => value + step * MOVED_A_STEP));
    return state;
  }

  #planOf(epoch: number): Plan | null {
    return this.#plan?.epoch === epoch ? this.#plan.plan : null;
  }
}
