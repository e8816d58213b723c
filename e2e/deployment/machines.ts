/**
 * Machines for what `deploy/` describes, without an engine for containers: each is a network and a mount namespace, with a
 * root folder of its own in which this machine's programs are. All are on one bridge of the host's.
 * Needs Linux and root.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { invariant } from '../../swarm/base.ts';

/** Of this machine, in every root folder. */
const PROGRAM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib64', '/opt', '/dev'];
/** As engines for containers have it: of an address that no router passes on. */
const NETWORK = '172.30.77';
/** Beside it, as the internet has them: of nobody's own network. */
const WORLD = '198.51.100';

export interface Process {
  readonly child: ChildProcess;
  /** All that it has printed. */
  log(): string;
}

/** Ends with the process that started it, however that ends. */
const DIES_WITH_US = ['setpriv', '--pdeathsig', 'KILL'];

export const canUnshare = (): boolean =>
  process.platform === 'linux' &&
  process.getuid?.() === 0 &&
  spawnSync('unshare', ['-n', '-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0 &&
  spawnSync('ip', ['-V']).status === 0;

/** What is mounted where before anything runs: words of `mount`, a path within the root folder last. */
export type Mount = readonly [...words: string[], path: string];

export class Machine {
  readonly name: string;
  readonly address: string;
  readonly worldAddress: string;
  readonly #holder: ChildProcess;
  readonly #root: string;

  private constructor(
    name: string,
    { own, world }: { readonly own: string; readonly world: string },
    holder: ChildProcess,
    root: string,
  ) {
    this.name = name;
    this.address = own;
    this.worldAddress = world;
    this.#holder = holder;
    this.#root = root;
  }

  /**
   * `image`: its root folder but for programs, absent: this machine's own. `host`: whose bridge it is at, absent:
   * it is the host. `number`: the last part of its address.
   */
  static async open(options: {
    readonly name: string;
    readonly number: number;
    readonly folder: string;
    readonly image?: string;
    readonly host?: Machine;
    /** On the host's own network, in place of one of its own. */
    readonly sharesNetwork?: boolean;
    readonly mounts?: readonly Mount[];
  }): Promise<Machine> {
    const { name, number, folder, image, host, sharesNetwork = false, mounts = [] } = options;
    const root = join(folder, name, 'root');
    for (const path of [root, join(folder, name, 'scratch')]) mkdirSync(path, { recursive: true });
    const enter = sharesNetwork && host !== undefined ? ['nsenter', '-t', String(host.#holder.pid), '-n'] : [];
    const namespaces = sharesNetwork ? ['-m'] : ['-n', '-m'];
    const [program = '', ...words] = [...DIES_WITH_US, ...enter, 'unshare', ...namespaces, 'sh', '-c'];
    const laid = image === undefined ? 'true' : rootScript(join(folder, name), root, image);
    const script = `${laid} && echo ready && exec sleep infinity`;
    const holder = spawn(program, [...words, script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await Promise.race([once(holder.stdout, 'data'), once(holder, 'exit')]);
    invariant(holder.exitCode === null, `${name} has its root folder`);
    const own = { own: `${NETWORK}.${number}`, world: `${WORLD}.${number}` };
    const addresses = sharesNetwork && host !== undefined ? { own: host.address, world: host.worldAddress } : own;
    const machine = new Machine(name, addresses, holder, image === undefined ? '' : root);
    if (!sharesNetwork) machine.#connect(host, number);
    for (const mount of mounts) machine.#mount(mount);
    return machine;
  }

  /** Folders that it mounts go with it. */
  close(): void {
    this.#holder.kill('SIGKILL');
  }

  /** A file of its root folder, as it sees it. */
  write(path: string, text: string): void {
    execFileSync('nsenter', [...this.#namespaces(), 'tee', this.#root + path], {
      input: text,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
  }

  read(path: string): string {
    return execFileSync('nsenter', [...this.#namespaces(), 'cat', this.#root + path], { encoding: 'utf8' });
  }

  /** The words that start a program in it. `user`: of its root folder; absent: this machine's root folder is seen, by root. */
  words(user: { readonly id: number; readonly folder: string } | null, command: readonly string[]): readonly string[] {
    const enter = [...DIES_WITH_US, 'nsenter', ...this.#namespaces()];
    if (user === null) return [...enter, ...command];
    const { id, folder } = user;
    const within = ['chroot', `--userspec=${id}:${id}`, `--groups=${id}`, this.#root];
    return [...enter, ...within, 'sh', '-c', `cd ${folder} && exec "$@"`, 'sh', ...command];
  }

  start(words: readonly string[], environment: Readonly<Record<string, string>>): Process {
    const [program = '', ...rest] = words;
    const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: environment });
    let log = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        log += text;
      });
    return { child, log: () => log };
  }

  #namespaces(): readonly string[] {
    return ['-t', String(this.#holder.pid), '-n', '-m'];
  }

  #run(...words: readonly string[]): void {
    execFileSync('nsenter', [...this.#namespaces(), ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
  }

  #mount([...words]: Mount): void {
    const path = this.#root + words.pop();
    const [, source = ''] = words[0] === '--bind' ? words : [];
    const isFile = source !== '' && spawnSync('test', ['-f', source]).status === 0;
    this.#run('mkdir', '-p', isFile ? path.slice(0, path.lastIndexOf('/')) : path);
    if (isFile) this.#run('sh', '-c', '[ -e "$0" ] || touch "$0"', path);
    this.#run('mount', ...words, path);
  }

  #connect(host: Machine | undefined, number: number): void {
    this.#run('ip', 'link', 'set', 'lo', 'up');
    const addressed = (link: string): void => {
      for (const address of [this.address, this.worldAddress])
        this.#run('ip', 'address', 'add', `${address}/24`, 'dev', link);
    };
    if (host === undefined) {
      this.#run('ip', 'link', 'add', 'bridge', 'type', 'bridge');
      addressed('bridge');
      this.#run('ip', 'link', 'set', 'bridge', 'up');
      return;
    }
    const cable = `v${number}`;
    invariant(this.#holder.pid, 'it lives');
    host.#run('ip', 'link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(this.#holder.pid));
    host.#run('ip', 'link', 'set', cable, 'master', 'bridge', 'up');
    addressed('eth0');
    this.#run('ip', 'link', 'set', 'eth0', 'up');
    this.#run('ip', 'route', 'add', 'default', 'via', host.address);
  }
}

/** An image, this machine's programs within it, and what is written over it, which is gone with the machine. */
function rootScript(folder: string, root: string, image: string): string {
  const scratch = join(folder, 'scratch');
  const bound = PROGRAM_FOLDERS.filter(existsSync).flatMap((path) => [
    `mkdir -p ${root}${path}`,
    `mount --rbind ${path} ${root}${path}`,
  ]);
  return [
    `mount -t tmpfs tmpfs ${scratch}`,
    `mkdir ${scratch}/upper ${scratch}/work`,
    `mount -t overlay overlay -o lowerdir=${image},upperdir=${scratch}/upper,workdir=${scratch}/work ${root}`,
    ...bound,
    `mkdir -p ${root}/proc ${root}/tmp`,
    `mount -t proc proc ${root}/proc`,
    `mount -t tmpfs tmpfs ${root}/tmp`,
  ].join(' && ');
}
