/** For tests of who may do what: a server by invitation whose plan has four donors, each of one stage, and visitors beside them. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { invariant, peerId } from '../../swarm/base.ts';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { PROTOCOL_VERSION } from '../../swarm/messages/messages.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { Server } from '../server.ts';
import { SCRIPTED_ADAPTER, ScriptedDonor } from './scriptedDonor.ts';
import { TinyServers, tinyRunFile } from './tinyServers.ts';

export const INVITE = 'sesame';
/** Of an operator, a while ago. */
export const EXPIRED_SESSION = 'a-session-that-is-over';
export const HELLO: PeerMessage = {
  ...{ type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER, invite: INVITE },
};
const SEATS = ['first', 'second', 'third', 'fourth'].map(peerId);
const SAMPLES = 4;
const STEP_MS = 30;

export class FourStages {
  readonly servers = new TinyServers({ steps: 1_000_000, samples: SAMPLES, layers: SEATS.length });
  #server: Server | null = null;
  #members: readonly ScriptedDonor[] = [];
  #visitors = 0;

  get server(): Server {
    invariant(this.#server, 'it serves');
    return this.#server;
  }

  /** In the order of their stages. */
  get members(): readonly ScriptedDonor[] {
    return this.#members;
  }

  memberAt(stage: number): ScriptedDonor {
    const member = this.#members[stage];
    invariant(member, 'the plan has four members');
    return member;
  }

  /** Once its members train. */
  async begin(): Promise<void> {
    const { servers } = this;
    const pages = join(servers.folder, 'pages');
    mkdirSync(pages);
    for (const page of ['index', 'operator', 'status', 'talk'])
      writeFileSync(join(pages, `${page}.html`), '<!doctype html>');
    const model = modelFromConfig(tinyRunFile({ steps: 1, layers: SEATS.length }).model);
    invariant(model.ok, 'the model is one');
    const plan = equalSplit(model.value, SAMPLES, SEATS);
    const { store } = await servers.data();
    const over = {
      hash: createHash('sha256').update(EXPIRED_SESSION).digest('hex'),
      role: 'operator',
      name: 'old',
      leftMs: 0,
    };
    store.saveSetting('sessions', JSON.stringify([over]));
    const access = { trustProxy: ['127.0.0.1', '::1'] };
    this.#server = await servers.serve({ pages, plan, invite: INVITE, access });
    const members = SEATS.map(() => this.visitor());
    await Promise.all(members.map((donor) => donor.hears('committed')));
    // Seats go to donors as they come, which need not be as they set out.
    this.#members = members.toSorted((a, b) => this.#stageOf(a) - this.#stageOf(b));
  }

  #stageOf({ welcome }: ScriptedDonor): number {
    const [own] = this.server.run.snapshot().donors.find(({ peer }) => peer === welcome.peer)?.stages ?? [];
    invariant(own, 'each has a stage');
    return own.stage;
  }

  /** From an address of its own: what one says costs no other its place. */
  visitor(options: { readonly greets?: boolean } = {}): ScriptedDonor {
    this.#visitors += 1;
    const number = this.#visitors;
    const address = `100.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;
    return new ScriptedDonor(this.server.url, { invite: INVITE, stepMs: STEP_MS, address, ...options });
  }

  /** One that says nothing, not even hello. */
  async connected(): Promise<ScriptedDonor> {
    const donor = this.visitor({ greets: false });
    await donor.opened;
    return donor;
  }

  /** One that was welcomed, and measures nothing. */
  async greeted(): Promise<ScriptedDonor> {
    const donor = await this.connected();
    donor.say(HELLO);
    await Promise.race([donor.hears('welcome'), donor.closed]);
    return donor;
  }

  /** One that is admitted, and has no place in the plan. */
  async spare(): Promise<ScriptedDonor> {
    const donor = this.visitor();
    await Promise.race([donor.hears('welcome'), donor.closed]);
    await donor.settled();
    return donor;
  }

  /** The cookie of a session that this token opens. */
  async logIn(token: string): Promise<string> {
    const { url } = this.server;
    const headers = { 'content-type': 'application/json', origin: url };
    const answer = await fetch(`${url}/api/operator/login`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ token }),
    });
    return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  }

  close(): Promise<void> {
    return this.servers.close();
  }
}
