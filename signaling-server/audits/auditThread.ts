/**
 * Audits in a thread of their own, one after the other, so that a server answers its donors meanwhile. Where it dies, what it
 * had is void, and the next audit opens another one.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { auditOutcome } from '../../swarm/audit/audit.ts';
import type { AuditOutcome } from '../../swarm/audit/auditCase.ts';
import { invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { modelToTrain } from '../../swarm/run/runFile.ts';
import { messageOf } from '../files/errorWords.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import type { AuditTask } from './auditTask.ts';

const COMMAND = 'audit-thread';

/** Rejects where it cannot be done. */
type CheckAudit = (task: AuditTask) => Promise<AuditOutcome>;

interface Asked {
  readonly number: number;
  readonly task: AuditTask;
}
interface Answer {
  readonly number: number;
  readonly outcome: Result<AuditOutcome>;
}

const auditHere: CheckAudit = async ({ file, ...task }) => {
  const model = modelToTrain(file);
  if (!model.ok) throw new Error(model.reason);
  return auditOutcome({ ...task, model: model.value });
};

export class AuditThread {
  readonly #waiting = new Map<number, (outcome: Answer['outcome']) => void>();
  #worker: Worker | null = null;
  #asked = 0;

  readonly check: CheckAudit = async (task) => {
    if (!IS_BUILT) return auditHere(task); // only the built command can be a thread
    const worker = this.#worker ?? this.#open();
    const number = this.#asked++;
    const outcome = await new Promise<Answer['outcome']>((resolve) => {
      this.#waiting.set(number, resolve);
      worker.postMessage({ number, task } satisfies Asked);
    });
    if (!outcome.ok) throw new Error(outcome.reason);
    return outcome.value;
  };

  close(): void {
    void this.#worker?.terminate();
  }

  #open(): Worker {
    const worker = new Worker(COMMAND_FILE, { argv: [COMMAND] });
    this.#worker = worker;
    worker.unref();
    worker.on('message', ({ number, outcome }: Answer) => {
      this.#waiting.get(number)?.(outcome);
      this.#waiting.delete(number);
    });
    const ended = (): void => {
      if (this.#worker === worker) this.#worker = null;
      for (const resolve of this.#waiting.values()) resolve(refusal('the thread that audits ended'));
      this.#waiting.clear();
    };
    worker.on('error', ended);
    worker.on('exit', ended);
    return worker;
  }
}

export function addAuditThreadCommand(program: Command): void {
  program.command(COMMAND, { hidden: true }).action(serveAudits);
}

/** Until the thread is ended. */
async function serveAudits(): Promise<void> {
  const port = parentPort;
  invariant(port, `${COMMAND} is a thread of a server`);
  port.on('message', async ({ number, task }: Asked) => {
    const outcome = await auditHere(task).then(success, (error: unknown) => refusal(messageOf(error)));
    port.postMessage({ number, outcome } satisfies Answer);
  });
  await new Promise(() => {});
}
