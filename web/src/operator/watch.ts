/** The shell around an operator's state: logs in, watches the run, sends commands. The cookie is the browser's affair. */
import { z } from 'zod';
import { decodeWatchMessage, type OperatorCommand, type WatchMessage } from '../../../swarm/messages/watch.ts';
import { openWebSocket, RetrySocket } from '../net/socket.ts';
import type { Live } from '../page/live.ts';
import { withRun } from '../page/ofRun.ts';
import { query, read, stepsSchema, tell } from './api.ts';
import type { OperatorConnection, OperatorEvent, OperatorState } from './state.ts';
import { whyNoPicture } from './whyNoPicture.ts';

const ANSWERS: Readonly<Record<OperatorCommand, string>> = {
  start: 'Starting the run.',
  pause: 'Pausing the run, after the step under way if there is one.',
  resume: 'The run goes on.',
  stop: 'Stopping the run, after the step under way if there is one. Everything is saved.',
};

/** Said until there is another answer, however often the socket is tried. */
const KNOWN_WHY: ReadonlySet<OperatorConnection> = new Set(['noRun', 'noLeader']);

export class Watch {
  readonly #live: Live<OperatorState, OperatorEvent>;
  #socket: RetrySocket | null = null;

  constructor(live: Live<OperatorState, OperatorEvent>) {
    this.#live = live;
  }

  /** Watches with the cookie there is; where there is none that holds, the page asks for a token. */
  async open(): Promise<void> {
    await this.#askWhy();
    if (this.#live.current.connection !== 'loggedOut') this.#watch();
  }

  async login(token: string): Promise<void> {
    this.#live.dispatch({ type: 'loginAsked' });
    const problem = await this.#post('/api/operator/login', { token });
    this.#live.dispatch({ type: 'loginAnswered', problem });
    if (problem === null) this.#watch();
  }

  async command(command: OperatorCommand): Promise<void> {
    this.#live.dispatch({ type: 'commandAsked', command });
    const problem = await this.#post('/api/operator/command', { command });
    this.#live.dispatch({ type: 'commandAnswered', ok: problem === null, sentence: problem ?? ANSWERS[command] });
  }

  changes(run: string): void {
    this.#live.dispatch({ type: 'changeBegun', run });
  }

  async logout(): Promise<void> {
    await this.#post('/api/operator/logout', {});
    await this.#askWhy();
  }

  #watch(): void {
    this.#socket?.close();
    this.#socket = new RetrySocket({
      open: () => openWebSocket(withRun('/api/watch')),
      wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)), // late while hidden: fine
      random: Math.random,
      now: () => performance.now(),
      onOpen: () => this.#live.dispatch({ type: 'connectionChanged', connection: 'open' }),
      onText: (text) => {
        const decoded = decodeWatchMessage(text);
        if (decoded.ok) this.#onMessage(decoded.value);
        else console.warn(`A message of the server was not understood: ${decoded.reason}`);
      },
      onClosed: () => {
        if (!KNOWN_WHY.has(this.#live.current.connection))
          this.#live.dispatch({ type: 'connectionChanged', connection: 'closed' });
        void this.#askWhy();
      },
    });
  }

  #onMessage(message: WatchMessage): void {
    const { curve, snapshot } = this.#live.current;
    const isNew = curve.length === 0 || snapshot?.run !== message.snapshot.run;
    this.#live.dispatch({ type: 'serverSaid', message });
    const first = message.recent[0]?.step ?? 0;
    if (isNew && first > 0) void this.#readOlder(message.snapshot.run, first);
  }

  /** Of a long run the server tells only the newest steps by itself. */
  async #readOlder(run: string, until: number): Promise<void> {
    const answer = await read(query('/api/operator/steps', { run, until }), stepsSchema);
    if (answer.ok) this.#live.dispatch({ type: 'olderStepsRead', run, steps: answer.value.steps });
  }

  /** A browser does not say why a WebSocket was refused, so the same is asked for over HTTP; the socket keeps trying. */
  async #askWhy(): Promise<void> {
    const answer = await fetch(withRun('/api/snapshot')).catch(() => null); // null: unreachable
    if (answer?.status === 401) this.#socket?.close();
    const connection = whyNoPicture(answer);
    if (connection !== undefined && (connection !== 'closed' || this.#live.current.connection === 'noLeader'))
      this.#live.dispatch({ type: 'connectionChanged', connection });
  }

  /** Null where it was accepted, else the server's sentence. */
  async #post(path: string, body: unknown): Promise<string | null> {
    const answer = await tell(path, body, z.unknown());
    return answer.ok ? null : answer.reason;
  }
}
