/**
 * How long a page holds its own thread, out of the browser's own trace: a task is whatever runs without giving the
 * thread back, script, layout and painting alike. Of each short stretch of time the longest one counts, so that
 * thousands of empty tasks make no average.
 */

import type { Browser, Page } from 'playwright';
import { z } from 'zod';
import { totalOf } from '../../swarm/base.ts';

/** As often as a dashboard redraws. */
const STRETCH_SECONDS = 0.25;
const CATEGORY = 'toplevel';
const TASK = 'ThreadControllerImpl::RunTask';
const MAIN_THREAD = 'CrRendererMain';

const traceSchema = z.object({
  traceEvents: z.array(
    z.object({
      name: z.string(),
      ph: z.string(),
      pid: z.number(),
      tid: z.number(),
      ts: z.number().default(0),
      dur: z.number().default(0),
      tdur: z.number().optional(),
      args: z.object({ name: z.string().optional() }).optional(),
    }),
  ),
});
type TraceEvent = z.infer<typeof traceSchema>['traceEvents'][number];

/** What ran on the page's thread while `work` went on: when it began, in seconds of the browser's clock, and how long. */
export interface Task {
  readonly atSeconds: number;
  readonly ms: number;
  /** Of these, those that it had a core for: on a busy machine the others are the machine's. */
  readonly cpuMs: number;
}

export async function pageTasks(browser: Browser, page: Page, work: () => Promise<unknown>): Promise<Task[]> {
  await browser.startTracing(page, { categories: [CATEGORY] });
  await work();
  const { traceEvents } = traceSchema.parse(JSON.parse(String(await browser.stopTracing())));
  return busiestThread(traceEvents).map(({ ts, dur, tdur = dur }) => ({
    ...{ atSeconds: ts / 1e6, ms: dur / 1e3, cpuMs: tdur / 1e3 },
  }));
}

/** Of every quarter of a second the longest task, in milliseconds. */
export function longestTasksMs(tasks: readonly Task[], of: 'ms' | 'cpuMs' = 'ms'): number[] {
  const longest = new Map<number, number>();
  for (const task of tasks) {
    const stretch = Math.floor(task.atSeconds / STRETCH_SECONDS);
    longest.set(stretch, Math.max(longest.get(stretch) ?? 0, task[of]));
  }
  return [...longest.values()];
}

const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`;

/** Every page has a process with such a thread; that of one that is shown and fed works most. */
function busiestThread(events: readonly TraceEvent[]): TraceEvent[] {
  const threads = new Set(
    events.filter(({ name, args }) => name === 'thread_name' && args?.name === MAIN_THREAD).map(threadOf),
  );
  const tasksOf = new Map<string, TraceEvent[]>();
  for (const event of events) {
    const thread = threadOf(event);
    if (event.name !== TASK || event.ph !== 'X' || !threads.has(thread)) continue;
    const tasks = tasksOf.get(thread);
    if (tasks) tasks.push(event);
    else tasksOf.set(thread, [event]);
  }
  const work = (tasks: readonly TraceEvent[]): number => totalOf(tasks, ({ dur }) => dur);
  return [...tasksOf.values()].toSorted((a, b) => work(b) - work(a))[0] ?? [];
}
