/**
 * Where Debian's backports are: beside the release itself, on whatever mirror this machine has that from. Debian 12's own Mesa
 * is too old for WebGPU in Firefox on a machine without a GPU. Plain JavaScript: the set-up runs it.
 */
const WORTHY = ['bookworm'];

/** The mirror of a release, as the lists of packages name it, in either of apt's two formats; null: none does. */
function mirrorOf(codename, lists) {
  for (const text of lists) {
    for (const line of text.split('\n')) {
      const [type, ...words] = line
        .trim()
        .replace(/\[[^\]]*\]/, '')
        .split(/\s+/);
      if (type === 'deb' && words[1] === codename) return words[0];
    }
    for (const stanza of text.split(/\n\s*\n/)) {
      const field = (name) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(stanza)?.[1]?.split(/\s+/) ?? [];
      if (field('Types').includes('deb') && field('Suites').includes(codename)) return field('URIs')[0] ?? null;
    }
  }
  return null;
}

/**
 * The suite of the backports, and the text of a file for `/etc/apt/sources.list.d`: null where they are listed already. All
 * of it null where the release has a new enough Mesa of its own, or where no list names it. `release`: that of
 * `/etc/os-release`; `lists`: the texts of apt's.
 */
export function backportsOf(release, lists) {
  const codename = /^VERSION_CODENAME="?(\w+)"?$/m.exec(release)?.[1];
  if (codename === undefined || !WORTHY.includes(codename)) return null;
  const suite = `${codename}-backports`;
  const mirror = mirrorOf(codename, lists);
  if (mirror === null) return null;
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  const isListed = mirrorOf(suite, lists) !== null;
  const text = `Types: deb\nURIs: ${mirror}\nSuites: ${suite}\nComponents: main\nSigned-By: ${keys}\n`;
  return { suite, text: isListed ? null : text };
}
