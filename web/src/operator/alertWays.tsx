/** How alerts reach people: a notification of this browser, an address that the server calls. Both can be tried. */
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import type { Alert } from '../../../swarm/messages/alerts.ts';
import { webhookSchema } from '../../../swarm/messages/watch.ts';
import { Answer, useAct } from './act.tsx';
import { read, tell } from './api.ts';

const NOTIFY = 'shoal.operator.notify';
const keptSchema = z.object({ url: z.string() });
const anything = z.unknown();

const wantsNotices = (): boolean =>
  localStorage.getItem(NOTIFY) === 'yes' && 'Notification' in globalThis && Notification.permission === 'granted';

const notify = (run: string, text: string): void => void new Notification(`Shoal: ${run}`, { body: text });

/** Each alert once, when it begins, to who wants it in this browser. */
export function useNotices(run: string, alerts: readonly Alert[]): void {
  const [known, know] = useState<ReadonlySet<string>>(new Set());
  const kinds = alerts.map(({ kind }) => kind).join();
  useEffect(() => {
    if (wantsNotices()) for (const { kind, text } of alerts) if (!known.has(kind)) notify(run, text);
    know(new Set(alerts.map(({ kind }) => kind)));
  }, [kinds]);
}

export function AlertWays({ run }: { readonly run: string }) {
  const [isNotified, setNotified] = useState(wantsNotices());
  const [url, write] = useState('');
  const act = useAct();
  useEffect(() => {
    void read('/api/operator/webhook', keptSchema).then((kept) => kept.ok && write(kept.value.url));
  }, []);
  const choose = async (isOn: boolean): Promise<void> => {
    const isAllowed = isOn && 'Notification' in globalThis && (await Notification.requestPermission()) === 'granted';
    localStorage.setItem(NOTIFY, isAllowed ? 'yes' : 'no');
    setNotified(isAllowed);
  };
  const checked = webhookSchema.safeParse(url);
  const isAddress = checked.success;
  const keep = (): Promise<boolean> =>
    act.run(
      () => tell('/api/operator/webhook', { url }, anything),
      url === ''
        ? 'Saved: alerts go to no address.'
        : 'Saved. The server sends every alert there, even while no dashboard is open.',
    );
  const attempt = async (): Promise<void> => {
    if (isNotified) notify(run, 'This is a test. Alerts of this run look like this.');
    if (url !== '') await act.run(() => tell('/api/operator/webhook/try', {}, anything), 'The address took the test.');
  };
  return (
    <form
      class="ways"
      onSubmit={(event) => {
        event.preventDefault();
        void keep();
      }}
    >
      <label class="check">
        <input type="checkbox" checked={isNotified} onChange={(event) => void choose(event.currentTarget.checked)} />
        <span>Notify me in this browser while this tab is open</span>
      </label>
      <label class="block">
        <span>
          Send alerts to a web address <span class="note">a webhook of Slack, Discord or your own</span>
        </span>
        <input
          type="url"
          placeholder="https://…"
          maxLength={1000}
          value={url}
          aria-invalid={!isAddress || undefined}
          onInput={(event) => write(event.currentTarget.value.trim())}
        />
      </label>
      <div class="buttons">
        <button type="submit" class="small" disabled={act.isOff || !isAddress}>
          Save address
        </button>
        <button
          type="button"
          class="small"
          disabled={act.isOff || (url === '' && !isNotified)}
          onClick={() => void attempt()}
        >
          Send a test
        </button>
      </div>
      <Answer answer={isAddress ? act.answer : { ok: false, sentence: checked.error.issues[0]?.message ?? '' }} />
    </form>
  );
}
