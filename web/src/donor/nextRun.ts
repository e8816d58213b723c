/** Who wants to be told of the next run is told once, as long as this tab is open. */
import { signal } from '@preact/signals';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';

type Seen = Pick<PublicStatus, 'run' | 'phase'>;

/** The run that is over, of a person who waits for another one; null: nobody waits. */
export const awaitedAfter = signal<string | null>(null);
/** What has begun and was waited for; null: nothing. */
export const begun = signal<string | null>(null);
/** The run that this page was told of last, where it is finished. */
export const over = signal<string | null>(null);

/** Whether this is what was waited for. */
export const hasBegun = (after: string | null, { run, phase }: Seen): boolean =>
  after !== null && (run !== after || phase !== 'finished');

/** Asks the browser's leave for a notification; without it the tab's title says it. */
export async function tellWhenNext(run: string): Promise<void> {
  awaitedAfter.value = run;
  begun.value = null;
  if ('Notification' in globalThis && Notification.permission === 'default') await Notification.requestPermission();
}

/** With each status that comes. */
export function seeStatus(status: Seen): void {
  over.value = status.phase === 'finished' ? status.run : null;
  if (!hasBegun(awaitedAfter.value, status)) return;
  awaitedAfter.value = null;
  begun.value = status.run;
  if ('Notification' in globalThis && Notification.permission === 'granted')
    new Notification('Shoal', { body: `${status.run} has begun. Your GPU can help again.` });
}
