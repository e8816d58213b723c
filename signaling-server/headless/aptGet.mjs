/**
 * apt-get, where somebody else's may be at work: its locks are waited for. `DPkg::Lock::Timeout` is for dpkg's lock
 * alone; that of the lists, which `update` takes, fails at once (apt 2.6). Plain JavaScript: the set-up runs it.
 */
import { spawnSync } from 'node:child_process';

const LOOK_MS = 1_000;
const LIMIT_MS = 600_000;
const IS_HELD = /Could not get lock|Unable to (lock|acquire)/;

/** What it says goes to our standard error; in English, since the words of a held lock are looked for. */
function run(words) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' };
  const { status, stderr, error } = spawnSync('apt-get', words, {
    stdio: ['ignore', 2, 'pipe'],
    env,
    encoding: 'utf8',
  });
  return { ok: status === 0, errors: stderr || error?.message || '' };
}

const pause = () => new Promise((resolve) => setTimeout(resolve, LOOK_MS));

/** Whether it did what it was told. `say` is for the person who waits. */
export async function aptGet(words, say, { attempt = run, wait = pause } = {}) {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const { ok, errors } = attempt(words);
    const isHeld = !ok && IS_HELD.test(errors);
    if (isHeld && waitedMs < LIMIT_MS) {
      if (waitedMs === 0) say('another apt is at work on this machine: waiting for it');
      await wait();
      continue;
    }
    if (errors !== '') process.stderr.write(errors);
    if (isHeld) say(`another apt was still at work after ${LIMIT_MS / 60_000} minutes`);
    return ok;
  }
}
