/** How alerts reach people: a notification of this browser, an address that the server calls. Both can be tried. */
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { refusal, success } from '../../../swarm/base.ts';
import type { Alert } from '../../../swarm/messages/alerts.ts';
import { webhookSchema } from '../../../swarm/messages/watch.ts';
import { onSubmit, TextField, Tick } from '../page/fields.tsx';
import { SmallButton } from '../page/parts.tsx';
import { Answer, useAct } from './act.tsx';
import { read } from './api.ts';

const NOTIFY = 'shoal.operator.notify';
const keptSchema = z.object({ url: z.string() });

const wantsNotices = (): boolean =>
  localStorage.getItem(NOTIFY) === 'yes' && 'Notification' in globalThis && Notification.permission === 'granted';

/** False: this browser shows none. Chrome on Android allows them, and throws when a page makes one. */
function notify(run: string, text: string): boolean {
  try {
    return new Notification(`Shoal: ${run}`, { body: text }) !== null;
  } catch {
    return false;
  }
}

const NOT_ALLOWED =
  'This browser does not allow notifications from this address. Allow them in its settings for this site, then tick the box again.';
const NOT_SHOWN = 'This browser can’t show notifications.';
const SHOWN = 'This browser was asked to show a test. If you see none, look at its notification settings.';
const TAKEN = 'The test was delivered.';

/** Each alert once, when it begins, to who wants it in this browser. */
export function useNotices(run: string, alerts: readonly Alert[]): void {
  const [known, know] = useState<ReadonlySet<string>>(new Set());
  const kinds = alerts.map(({ kind }) => kind).join();
  useEffect(() => {
    if (wantsNotices()) for (const { kind, text } of alerts) if (!known.has(kind)) notify(run, text);
    know(new Set(alerts.map(({ kind }) => kind)));
  }, [kinds]);
}

const WEBHOOK = (
  <>
    Send alerts to a web address <span class="note">a webhook of Slack, Discord or your own</span>
  </>
);

/** Notifications of this browser: whether it is to show them, and what came of that. */
function useBrowserNotices(run: string) {
  const [isOn, turn] = useState(wantsNotices());
  const act = useAct();
  const choose = async (isWanted: boolean): Promise<void> => {
    const isAllowed =
      isWanted && 'Notification' in globalThis && (await Notification.requestPermission()) === 'granted';
    localStorage.setItem(NOTIFY, isAllowed ? 'yes' : 'no');
    turn(isAllowed);
    act.clear();
    if (isWanted && !isAllowed) await act.run(async () => refusal(NOT_ALLOWED), '');
  };
  const attempt = async (): Promise<void> => {
    const isShown = notify(run, 'This is a test. Alerts of this run look like this.');
    await act.run(async () => (isShown ? success(null) : refusal(NOT_SHOWN)), SHOWN);
  };
  return { isOn, answer: act.answer, choose, attempt };
}

export function AlertWays({ run }: { readonly run: string }) {
  const [url, write] = useState('');
  const [kept, keepAs] = useState('');
  const [act, notices] = [useAct(), useBrowserNotices(run)];
  useEffect(() => {
    void read('/api/operator/webhook', keptSchema).then((answer) => {
      if (!answer.ok) return;
      write(answer.value.url);
      keepAs(answer.value.url);
    });
  }, []);
  const checked = webhookSchema.safeParse(url);
  const isAddress = checked.success;
  const keep = async (): Promise<void> => {
    const isKept = await act.tell(
      '/api/operator/webhook',
      { url },
      url === ''
        ? 'Saved. No address gets alerts now.'
        : 'Saved. The server sends every alert there, even while no dashboard is open.',
    );
    if (isKept) keepAs(url);
  };
  const attempt = async (): Promise<void> => {
    if (notices.isOn) await notices.attempt();
    if (kept !== '') await act.tell('/api/operator/webhook/try', {}, TAKEN);
  };
  return (
    <form class="ways" onSubmit={onSubmit(keep)}>
      <Tick checked={notices.isOn} onChange={notices.choose}>
        Notify me in this browser while this tab is open
      </Tick>
      {notices.answer && <Answer answer={notices.answer} />}
      <TextField
        class="block"
        label={WEBHOOK}
        value={url}
        onInput={(text) => write(text.trim())}
        input={{
          ...{ type: 'url', placeholder: 'https://…', maxLength: 1000 },
          'aria-invalid': !isAddress || undefined,
        }}
      />
      <div class="buttons">
        <SmallButton type="submit" disabled={act.isOff || !isAddress}>
          Save address
        </SmallButton>
        <SmallButton
          disabled={act.isOff || url !== kept || (url === '' && !notices.isOn)}
          title={url === kept ? undefined : 'Save the address first.'}
          onClick={() => void attempt()}
        >
          Send a test
        </SmallButton>
      </div>
      <Answer answer={isAddress ? act.answer : { ok: false, sentence: checked.error.issues[0]?.message ?? '' }} />
    </form>
  );
}
