/**
 * What the dashboard does at the Hub (Hugging Face's, or another one with the same interface): an operator signs in, and
 * opens a pull request with files. It happens in the operator's own browser: the server never sees the token, and nothing
 * keeps it longer than the form that asked for it. Loaded only with that form.
 */
import { HubApiError, oauthHandleRedirect, oauthLoginUrl, uploadFilesWithProgress } from '@huggingface/hub';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { trafficText } from '../page/format.ts';
import { comeBack } from './signInWindow.ts';

/** Enough to open pull requests, also in private repositories, and too little to push to any. */
const SCOPES = 'openid profile read-repos write-discussions';
/** What browsers hash in one piece. */
const LARGEST_FILE_BYTES = 2e9;

export interface SignedIn {
  readonly token: string;
  readonly name: string;
}

/** Called by the press of a button: browsers open windows for nothing else. */
export async function signIn(hubUrl: string, clientId: string, signal: AbortSignal): Promise<Result<SignedIn>> {
  const opened = open('about:blank');
  if (opened === null) return refusal('The browser did not open the Hub’s window: allow this page to open windows.');
  try {
    // Filled by the client; in memory, where it would else be kept in localStorage.
    const proof: { codeVerifier?: string; nonce?: string } = {};
    const redirectUrl = `${location.origin}/operator`;
    const address = await oauthLoginUrl({ hubUrl, clientId, redirectUrl, scopes: SCOPES, localStorage: proof });
    opened.location.href = address;
    const redirectedUrl = await comeBack(proof.nonce ?? '', signal);
    const { accessToken, userInfo } = await oauthHandleRedirect({ hubUrl, redirectedUrl, ...proof });
    return success({ token: accessToken, name: userInfo.preferred_username });
  } catch (error) {
    opened.close();
    return refusal(`You are not signed in: ${said(error)}`);
  }
}

export interface PushedFile {
  readonly path: string;
  readonly content: Blob;
}

interface Push {
  readonly hubUrl: string;
  readonly token: string;
  /** Of a model: `OWNER/NAME`. */
  readonly repository: string;
  readonly title: string;
  readonly files: readonly PushedFile[];
  readonly signal: AbortSignal;
  /** `adapter_model.safetensors: 40 % sent`. */
  readonly progress: (words: string) => void;
}

/** Answers with the pull request's address. */
export async function openPullRequest(push: Push): Promise<Result<string>> {
  const { hubUrl, token, repository, files } = push;
  if (!token.startsWith('hf_')) return refusal('This is no access token: the Hub’s begin with hf_.');
  const large = files.find(({ content }) => content.size > LARGEST_FILE_BYTES);
  if (large)
    return refusal(
      `${large.path} has ${trafficText(large.content.size)}, and a browser can push files of at most ${trafficText(LARGEST_FILE_BYTES)}: export the checkpoint and upload it with the Hub’s own tools.`,
    );
  try {
    const address = await sent(push);
    if (address === undefined || new URL(address).origin !== new URL(hubUrl).origin)
      return refusal('The Hub took the files, but did not say where the pull request is: look for it there.');
    return success(address);
  } catch (error) {
    const isHubs = error instanceof HubApiError && error.url.startsWith(hubUrl);
    return refusal((isHubs && REFUSED[error.statusCode]?.(repository)) || `The Hub was not told all: ${said(error)}`);
  }
}

const REFUSED: Readonly<Record<number, (repository: string) => string>> = {
  401: () => 'The Hub does not know this token: it is wrong, or it has expired. Sign in again, or take another one.',
  403: (repository) => `This token may not open pull requests in ${repository}.`,
  404: (repository) =>
    `There is no model ${repository} at the Hub, or this token may not see it. Create it there first.`,
  413: () => 'A file is larger than the Hub takes.',
};

async function sent({ hubUrl, token, repository, title, files, signal, progress }: Push): Promise<string | undefined> {
  const sending = uploadFilesWithProgress({
    ...{ hubUrl, accessToken: token, repo: { type: 'model', name: repository }, files: [...files] },
    ...{ commitTitle: title, isPullRequest: true, abortSignal: signal },
    // This page's policy lets no text and no bytes become code, which its other ways to send and to hash need (as of
    // 2.17): large files go by plain LFS, and the browser itself hashes each in one piece.
    ...{ useXet: false, useWebWorkers: { minSize: Number.POSITIVE_INFINITY } },
  });
  for (;;) {
    const { done, value } = await sending.next();
    if (done) return value?.pullRequestUrl;
    if (value.event === 'fileProgress' && value.state === 'uploading')
      progress(`${value.path}: ${Math.floor(value.progress * 100)} % sent`);
  }
}

/** What the client threw, in the Hub's own words where there are any. */
function said(error: unknown): string {
  if (error instanceof HubApiError) {
    const { error: words } = error.data ?? {};
    return typeof words === 'string' ? words : `it answered with ${error.statusCode}.`;
  }
  // A request that never came to anybody throws a TypeError, or, where its progress is watched, one without words.
  if (error instanceof TypeError || !(error instanceof Error) || error.message === '')
    return 'this browser could not reach the Hub or its storage. Look at your network, and try again.';
  return error.message;
}
