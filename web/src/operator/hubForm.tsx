/**
 * Pushes a checkpoint to the Hub as a pull request. The server hands the export to this browser, which shows it whole;
 * only the last button sends anything away.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { counted } from '../../../swarm/quantityText.ts';
import type { RunList } from '../../../swarm/run/runDraft.ts';
import { askFile } from '../page/ask.ts';
import { onSubmit, TextField, Tick } from '../page/fields.tsx';
import { trafficText } from '../page/format.ts';
import { SmallButton } from '../page/parts.tsx';
import { Answer, useAct } from './act.tsx';
import { query } from './api.ts';
import { openPullRequest, type PushedFile, type SignedIn, signIn } from './hub.ts';

interface HubFormProps {
  readonly hub: RunList['hub'];
  readonly run: string;
  readonly step: number;
  readonly generation: number | undefined;
  readonly onClose: () => void;
}

const ADAPTER_CONFIG = 'adapter_config.json';
const MODEL_CARD = 'README.md';
/** As the Hub names models. */
const REPOSITORY = '[\\w.\\-]+/[\\w.\\-]+';

export function HubForm({ hub, run, step, generation, onClose }: HubFormProps) {
  const [isMerged, merge] = useState(false);
  const exported = useExport({
    run,
    step,
    ...(generation !== undefined && { generation }),
    ...(isMerged && { merged: 1 }),
  });
  const files = exported?.ok ? exported.value : [];
  const isAdapter = isMerged || files.some(({ path }) => path === ADAPTER_CONFIG);
  const [repository, name] = useState('');
  const [token, keepToken] = useState('');
  const { push, ...sending } = usePush(hub.url);
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  const { host } = new URL(hub.url);
  const what = `${run} after ${counted(step, 'step')}`;
  return (
    <form
      class="card"
      aria-labelledby="push"
      onSubmit={onSubmit(() => push({ repository, token, files, title: what }))}
    >
      <h2 id="push" ref={title} tabIndex={-1}>
        Push {what} to the Hub
      </h2>
      <p>
        <b>Open a pull request</b> sends these files from this browser to {host}, where whoever may write to the
        repository looks at them and merges them; its main branch stays as it is. Until then nothing is sent there.
      </p>
      {isAdapter && (
        <Tick checked={isMerged} disabled={sending.act.busy} onChange={() => merge(!isMerged)}>
          The whole model, with the adapter merged into it
        </Tick>
      )}
      <Files exported={exported} />
      <div class="fields">
        <TextField
          label={`Model repository at ${host}`}
          value={repository}
          onInput={name}
          input={{
            required: true,
            pattern: REPOSITORY,
            placeholder: 'owner/name',
            autocomplete: 'off',
            spellcheck: false,
          }}
        />
        {hub.clientId === null && <TokenField token={token} keep={keepToken} />}
      </div>
      {hub.clientId !== null && <SignIn hubUrl={hub.url} clientId={hub.clientId} keep={keepToken} />}
      <p class="soft">
        The token stays in this tab, for {host} alone, and is forgotten when you close this form.
        {!isSecureContext && ' Open the dashboard by https or as localhost: browsers hash files for no other page.'}
      </p>
      <Sending {...sending} isReady={isSecureContext && files.length > 0 && token !== ''} onClose={onClose} />
    </form>
  );
}

function TokenField({ token, keep }: { readonly token: string; readonly keep: (token: string) => void }) {
  return (
    <TextField
      label="Access token that may open pull requests there"
      value={token}
      onInput={(text) => keep(text.trim())}
      input={{ type: 'password', autocomplete: 'off', required: true, placeholder: 'hf_…' }}
    />
  );
}

interface SendingProps extends Pick<ReturnType<typeof usePush>, 'act' | 'words' | 'address'> {
  readonly isReady: boolean;
  readonly onClose: () => void;
}

/** The button, how far it is, and what came of it. */
function Sending({ act, words, address, isReady, onClose }: SendingProps) {
  return (
    <>
      <div class="buttons">
        <button type="submit" class="primary" disabled={act.isOff || !isReady}>
          Open a pull request
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
        {act.busy && <span class="small">{words}</span>}
      </div>
      <Answer answer={act.answer} />
      {address !== null && (
        <p class="technical">
          <a href={address} target="_blank" rel="noreferrer">
            {address}
          </a>
        </p>
      )}
    </>
  );
}

/** What is pushed, by name and size, and the card that people read first. */
function Files({ exported }: { readonly exported: Result<readonly PushedFile[]> | null }) {
  const [card, show] = useState('');
  const files = exported?.ok ? exported.value : [];
  useEffect(() => {
    void files
      .find(({ path }) => path === MODEL_CARD)
      ?.content.text()
      .then(show);
  }, [exported]);
  if (exported === null) return <p role="status">Getting the files from this server…</p>;
  if (!exported.ok) return <Answer answer={{ ok: false, sentence: exported.reason }} />;
  return (
    <>
      <div class="table">
        <table>
          <thead>
            <tr>
              <th>File</th>
              <th class="number">Size</th>
            </tr>
          </thead>
          <tbody>
            {files.map(({ path, content }) => (
              <tr key={path}>
                <td>{path}</td>
                <td class="number">{trafficText(content.size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <details>
        <summary>What its {MODEL_CARD} says</summary>
        <pre class="example">{card}</pre>
      </details>
      <p>
        That file names the licence, as you wrote it under <b>What donors read</b>. Where the run began from somebody
        else’s weights, their terms hold for these files too: what their folder had of licences and notices is among
        them.
      </p>
    </>
  );
}

interface SignInProps {
  readonly hubUrl: string;
  readonly clientId: string;
  readonly keep: (token: string) => void;
}

/** By the Hub's own window, where the server has an OAuth application there. */
function SignIn({ hubUrl, clientId, keep }: SignInProps) {
  const [account, show] = useState<Result<SignedIn> | null>(null);
  const underWay = useRef(new AbortController());
  useEffect(() => () => underWay.current.abort(), []);
  const enter = async (): Promise<void> => {
    // The window of an earlier press may have been closed, which this page is not told.
    underWay.current.abort();
    underWay.current = new AbortController();
    const { signal } = underWay.current;
    const answer = await signIn(hubUrl, clientId, signal);
    if (signal.aborted) return;
    show(answer);
    keep(answer.ok ? answer.value.token : '');
  };
  return (
    <div class="buttons">
      <SmallButton onClick={() => void enter()}>Sign in at {new URL(hubUrl).host}</SmallButton>
      <Answer
        answer={
          account &&
          (account.ok
            ? { ok: true, sentence: `Signed in as ${account.value.name}.` }
            : { ok: false, sentence: account.reason })
        }
      />
    </div>
  );
}

type Pushed = Pick<Parameters<typeof openPullRequest>[0], 'repository' | 'token' | 'files' | 'title'>;

function usePush(hubUrl: string) {
  const act = useAct();
  const [words, say] = useState('');
  const [address, open] = useState<string | null>(null);
  const underWay = useRef(new AbortController());
  useEffect(() => () => underWay.current.abort(), []);
  const push = async (what: Pushed): Promise<void> => {
    open(null);
    say('Asking the Hub…');
    const { signal } = underWay.current;
    await act.run(async () => {
      const answer = await openPullRequest({ ...what, hubUrl, signal, progress: say });
      if (answer.ok) open(answer.value);
      return answer;
    }, 'The pull request is open:');
  };
  return { act, words, address, push };
}

/** The files of a checkpoint, as the server exports it; null: they are on their way. */
function useExport(of: Readonly<Record<string, string | number>>): Result<readonly PushedFile[]> | null {
  const [exported, show] = useState<Result<readonly PushedFile[]> | null>(null);
  const address = query('/api/operator/export', of);
  useEffect(() => {
    const leaving = new AbortController();
    show(null);
    void askFile(address, { signal: leaving.signal })
      .then(async (tar) => (tar.ok ? filesOf(tar.value) : tar))
      .then((files) => leaving.signal.aborted || show(files));
    return () => leaving.abort();
  }, [address]);
  return exported;
}

const BLOCK_BYTES = 512;

/** The plain files of a tar archive (ustar), which browsers keep on the disk where it is large: nothing is read but heads. */
async function filesOf(tar: Blob): Promise<Result<PushedFile[]>> {
  const files: PushedFile[] = [];
  for (let at = 0; at < tar.size; ) {
    const head = new TextDecoder('latin1').decode(await tar.slice(at, at + BLOCK_BYTES).arrayBuffer());
    const [path = ''] = head.slice(0, 100).split('\0');
    if (path === '') return success(files);
    const bytes = Number.parseInt(head.slice(124, 136), 8);
    const from = at + BLOCK_BYTES;
    // Eight gigabytes and more are written in another way.
    if (Number.isNaN(bytes)) return refusal('The export is larger than a browser can push.');
    files.push({ path: path.slice(path.lastIndexOf('/') + 1), content: tar.slice(from, from + bytes) });
    at = from + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return refusal('The export broke off on its way: try again.');
}
