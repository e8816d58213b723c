/**
 * The processes of a headless donor's browser that faults are done to. Linux only, and without rights of its own: a
 * process may stop those that it started.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { CDPSession } from 'playwright';

export interface DonorProcesses {
  /** Page and worker of the donor's tab. */
  readonly renderer: number | null;
  /** Every socket of the browser is its: WebSockets, HTTP, and the UDP of data channels. */
  readonly network: number | null;
}

/** Of a browser's renderer processes the donor's is the one with a worker. */
export async function donorProcesses(session: CDPSession): Promise<DonorProcesses> {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const pidOf = (wanted: (type: string, id: number) => boolean): number | null =>
    processInfo.find(({ type, id }) => wanted(type, id))?.id ?? null;
  return {
    renderer: pidOf((type, id) => type === 'renderer' && hasWorker(id)),
    network: pidOf((type) => type === 'network.mojom.NetworkService'),
  };
}

function hasWorker(pid: number): boolean {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.some((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').startsWith('DedicatedWorker'),
    );
  } catch {
    return false; // it ended in between, or this is no Linux
  }
}

/**
 * Stops a process and has it continued after so many seconds, also where this one has ended by then: what is stopped
 * cannot notice that its browser is gone. False where it is not there.
 */
export function stopFor(pid: number | null, seconds: number): boolean {
  if (pid === null || !signalled(pid, 'SIGSTOP')) return false;
  spawn('sh', ['-c', `sleep ${seconds}; kill -CONT ${pid}`], { detached: true, stdio: 'ignore' }).unref();
  return true;
}

export const goOn = (pid: number | null): void => void (pid !== null && signalled(pid, 'SIGCONT'));

function signalled(pid: number, signal: 'SIGSTOP' | 'SIGCONT'): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false; // it has ended
  }
}
