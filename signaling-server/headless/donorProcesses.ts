/**
 * The processes of a headless donor's browser that faults are done to. Linux only, and without rights of its own: a
 * process may stop those that it started.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { CDPSession } from 'playwright';
import type { TabProcesses } from './donorTab.ts';

/** Of a browser's renderer processes the donor's is the one with a worker. */
export async function chromiumProcesses(session: CDPSession): Promise<TabProcesses> {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const pidOf = (wanted: (type: string, id: number) => boolean): number | null =>
    processInfo.find(({ type, id }) => wanted(type, id))?.id ?? null;
  return {
    renderer: pidOf((type, id) => type === 'renderer' && hasWorker(id)),
    network: pidOf((type) => type === 'network.mojom.NetworkService'),
  };
}

/** As the browsers name the thread of a dedicated worker. */
const WORKER_THREADS = /^(DedicatedWorker|DOM Worker)/;

function hasWorker(pid: number): boolean {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.some((thread) => WORKER_THREADS.test(readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8')));
  } catch {
    return false; // it ended in between, or this is no Linux
  }
}

/** Of Firefox's processes, which are forked by one of them, the one whose page has a worker. */
export function descendantWithWorker(browserPid: number): number | null {
  const parents = parentsByPid();
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && (parent === browserPid || isBelow(parent));
  };
  return [...parents.keys()].find((pid) => isBelow(pid) && hasWorker(pid)) ?? null;
}

function parentsByPid(): ReadonlyMap<number, number> {
  const parents = new Map<number, number>();
  for (const name of existsSync('/proc') ? readdirSync('/proc') : []) {
    if (!/^\d+$/.test(name)) continue;
    try {
      // PID (NAME) STATE PARENT …; a name may have brackets and blanks of its own.
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {} // it ended in between
  }
  return parents;
}

export const isRunning = (pid: number): boolean => signalled(pid, 0);

/**
 * Stops a process and has it continued after so many seconds, also where this one has ended by then: what is stopped
 * cannot notice that its browser is gone. False where it is not there.
 */
export function stopFor(pid: number | null, seconds: number): boolean {
  if (pid === null || !signalled(pid, 'SIGSTOP')) return false;
  spawn('sh', ['-c', `sleep ${seconds}; kill -CONT ${pid}`], { detached: true, stdio: 'ignore' }).unref();
  return true;
}

/** A browser that does not notice that who started it is gone, however that ended, is ended with it. */
export function endWithUs(browserPid: number): void {
  const script = `while kill -0 ${process.pid} && kill -0 ${browserPid}; do sleep 1; done; kill -KILL ${browserPid}`;
  const watch = spawn('sh', ['-c', script], { detached: true, stdio: 'ignore' });
  watch.on('error', () => {}); // no sh on Windows
  watch.unref();
}

export const goOn = (pid: number | null): void => void (pid !== null && signalled(pid, 'SIGCONT'));

function signalled(pid: number, signal: 'SIGSTOP' | 'SIGCONT' | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false; // it has ended
  }
}
