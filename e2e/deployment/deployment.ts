/**
 * What `compose.yaml` starts, each service in a machine of its own with the file's command, user, mounts, names and ports.
 * The images of others are this machine's own programs of the same names.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BrowserProgram } from '../../signaling-server/headless/chromium.ts';
import { findBrowser } from '../../signaling-server/headless/findBrowser.mjs';
import { got, invariant } from '../../swarm/base.ts';
import { atTestEnd, temporaryFolder } from '../product.ts';
import { readCompose, type Service } from './composeFile.ts';
import { type Image, layBase, NODE_USER } from './containerfile.ts';
import { Machine, type Mount, type Process } from './machines.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const LOOK_MS = 250;
/** Of a kind for which Caddy makes certificates of its own. */
const DOMAIN = 'train.local';
const PASSWORD = 'herring';
const HOST = 1;
const OUTSIDE = 99;
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Of `ice.json`. */
interface IceServer {
  readonly urls: string;
  readonly username?: string;
  readonly credential?: string;
}

interface Foreign {
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

/** What the images of others run. */
const FOREIGN: Readonly<Record<string, Foreign>> = {
  nats: { command: ['nats-server'] },
  caddy: {
    command: ['caddy', 'run', '--config', '/etc/caddy/Caddyfile', '--adapter', 'caddyfile'],
    environment: { XDG_DATA_HOME: '/data', XDG_CONFIG_HOME: '/config' },
  },
  coturn: { command: ['turnserver', '--pidfile=/tmp/pid', '--log-file=stdout'] },
};
export const FOREIGN_PROGRAMS = Object.values(FOREIGN).flatMap(({ command }) => command.slice(0, 1));
/** Of coturn. */
export const RELAY_CLIENT = 'turnutils_uclient';
const AUTHORITY = '/data/caddy/pki/authorities/local';

/** A service of the file, started and stopped as compose does it. */
class Container {
  readonly machine: Machine;
  readonly service: Service;
  readonly #image: Image | null;
  #process: Process | null = null;

  constructor(machine: Machine, service: Service, image: Image | null) {
    this.machine = machine;
    this.service = service;
    this.#image = image;
  }

  get log(): string {
    return this.#process?.log() ?? '';
  }

  start(): void {
    const { command, environment } = this.service;
    const image = this.#image;
    const started = image === null ? foreignOf(this.service) : { ...image, command: image.entrypoint };
    const variables = { PATH, HOME: '/tmp', ...started.environment, ...environment };
    this.#process = this.machine.start(this.machine.words(this.#user, [...started.command, ...command]), variables);
  }

  /** In order, as before it is replaced. */
  async stop(): Promise<void> {
    const child = this.#process?.child;
    invariant(child, 'it was started');
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }

  kill(): void {
    this.#process?.child.kill('SIGKILL');
  }

  /** As the engine asks: by the image's own command. */
  async untilHealthy(): Promise<void> {
    const words = this.#image?.healthCheck ?? [];
    for (;;) {
      const asked = this.machine.start(this.machine.words(this.#user, words), { PATH });
      const [code] = await once(asked.child, 'exit');
      if (code === 0) return;
      invariant(this.#process?.child.exitCode === null, `${this.service.name} lives: ${this.log}`);
      await sleep(LOOK_MS);
    }
  }

  get #user() {
    const image = this.#image;
    return image === null ? { id: 0, folder: '/' } : { id: userOf(image), folder: image.workFolder };
  }
}

const userOf = ({ user }: Image): number => (user === 'node' ? NODE_USER : 0);
const imageName = ({ image }: Service): string => /([a-z]+):[^/]*$/.exec(image)?.[1] ?? image;
const foreignOf = (service: Service): Foreign => {
  const foreign = FOREIGN[imageName(service)];
  invariant(foreign, `a program for the image ${service.image}`);
  return foreign;
};

/** `SOURCE:PATH[:ro]`, and of a tmpfs `PATH:OPTIONS`. */
function mountsOf({ volumes, tmpfs }: Service, deploy: string, named: string): Mount[] {
  const bound = volumes.map((volume): Mount => {
    const [source = '', path = ''] = volume.split(':');
    const isFile = source.startsWith('.');
    const folder = isFile ? join(deploy, source) : join(named, source);
    if (!isFile) mkdirSync(folder, { recursive: true });
    return ['--bind', folder, path];
  });
  return [
    ...bound,
    ...tmpfs.map((word): Mount => {
      const [path = '', options = ''] = word.split(':');
      return ['-t', 'tmpfs', '-o', options, 'tmpfs', path];
    }),
  ];
}

/** The names and the password that docs/site.md asks for. */
function ownDeployment(): string {
  const deploy = join(temporaryFolder(), 'deploy');
  cpSync(DEPLOY, deploy, { recursive: true });
  const ice = join(deploy, 'ice.json');
  const text = readFileSync(ice, 'utf8').replaceAll('train.example.org', DOMAIN);
  writeFileSync(ice, text.replace('the same as TURN_PASSWORD', PASSWORD));
  return deploy;
}

/** All that the compose file names, and a machine of the world outside. */
export class Deployment {
  readonly #containers = new Map<string, Container>();
  readonly #deploy: string;
  readonly #host: Machine;
  readonly #outside: Machine;
  readonly origin = `https://${DOMAIN}`;

  /** Nothing of it is started yet. */
  static async open(image: Image): Promise<Deployment> {
    const deploy = ownDeployment();
    const text = readFileSync(join(deploy, 'compose.yaml'), 'utf8');
    const services = readCompose(text, { SHOAL_DOMAIN: DOMAIN, TURN_PASSWORD: PASSWORD });
    const [folder, named, bare] = [temporaryFolder(), temporaryFolder(), temporaryFolder()];
    layBase(bare);
    const open = async (options: Omit<Parameters<typeof Machine.open>[0], 'folder'>): Promise<Machine> => {
      const machine = await Machine.open({ ...options, folder });
      atTestEnd(() => machine.close());
      return machine;
    };
    const host = await open({ name: 'host', number: HOST });
    const hosts = join(named, 'hosts');
    writeFileSync(hosts, `127.0.0.1 localhost\n${host.worldAddress} ${DOMAIN}\n`);
    const mounts: Mount[] = [['--bind', hosts, '/etc/hosts']];
    const outside = await open({ name: 'outside', number: OUTSIDE, host, mounts });
    const deployment = new Deployment(deploy, host, outside);
    for (const [index, service] of services.entries()) {
      const machine = await open({
        ...{ name: service.name, number: HOST + 1 + index, host, sharesNetwork: service.isOnHost },
        ...{ image: service.isBuilt ? image.folder : bare, mounts: mountsOf(service, deploy, named) },
      });
      const container = new Container(machine, service, service.isBuilt ? image : null);
      atTestEnd(() => container.kill());
      deployment.#containers.set(service.name, container);
    }
    deployment.#name();
    return deployment;
  }

  private constructor(deploy: string, host: Machine, outside: Machine) {
    this.#deploy = deploy;
    this.#host = host;
    this.#outside = outside;
  }

  get names(): readonly string[] {
    return [...this.#containers.keys()];
  }

  container(name: string): Container {
    return got(this.#containers, name);
  }

  start(...names: readonly string[]): void {
    for (const name of names) {
      const container = this.container(name);
      container.start();
      for (const port of container.service.ports) this.#publish(port, container.machine);
    }
  }

  /** This machine's own `shoal`, on the host: for its files. */
  onHost(command: readonly string[]): readonly string[] {
    return this.#host.words(null, command);
  }

  /** What anyone outside is answered over https, by a certificate that is looked at; null: no answer, or none that is well. */
  async ask(path: string): Promise<unknown> {
    const script = `fetch('${this.origin}${path}').then((answer) => answer.ok ? answer.text() : null).then((text) => text !== null && process.stdout.write(text), () => {})`;
    const authority = join(temporaryFolder(), 'root.crt');
    writeFileSync(authority, this.container('caddy').machine.read(`${AUTHORITY}/root.crt`));
    const environment = { PATH, NODE_EXTRA_CA_CERTS: authority };
    const asked = this.#outside.start(this.#outside.words(null, [process.execPath, '-e', script]), environment);
    await once(asked.child, 'close');
    return asked.log() === '' ? null : JSON.parse(asked.log());
  }

  /**
   * What coturn's own client says, outside, when it has the TURN server of `ice.json` relay to a peer; absent: to another client,
   * by a relay of its own, as two donors are who find no direct way.
   */
  async relayed(to: { readonly peer?: string; readonly password?: string } = {}): Promise<string> {
    const servers = JSON.parse(readFileSync(join(this.#deploy, 'ice.json'), 'utf8')) as readonly IceServer[];
    const turn = servers.find(({ urls }) => urls.startsWith('turn:'));
    invariant(turn?.username && turn.credential, 'donors are given a TURN server');
    const [, name = '', port = ''] = /^turn:(.+):(\d+)$/.exec(turn.urls) ?? [];
    const identity = ['-u', turn.username, '-w', to.password ?? turn.credential, '-p', port];
    const peer = to.peer === undefined ? ['-y'] : ['-e', to.peer];
    const words = this.#outside.words(null, [RELAY_CLIENT, ...identity, ...peer, '-m', '2', '-n', '5', name]);
    const client = this.#outside.start(words, { PATH });
    await once(client.child, 'close');
    return client.log();
  }

  /** A machine of the site's own network, which nobody outside may reach. */
  get innerAddress(): string {
    return this.#host.address;
  }

  /** A browser outside, which trusts whom Caddy's own authority signs for. */
  async browser(): Promise<BrowserProgram> {
    const found = await findBrowser();
    invariant(found, 'there is a browser');
    const path = join(temporaryFolder(), 'browser');
    const words = this.#outside.words(null, [found.path]).join(' ');
    writeFileSync(path, `#!/bin/sh\nexec ${words} "$@"\n`);
    chmodSync(path, 0o755);
    const { publicKey } = new X509Certificate(this.container('caddy').machine.read(`${AUTHORITY}/intermediate.crt`));
    const key = createHash('sha256')
      .update(publicKey.export({ type: 'spki', format: 'der' }))
      .digest('base64');
    return { path, switches: [`--ignore-certificate-errors-spki-list=${key}`] };
  }

  /** Every machine knows the others by the names of their services. */
  #name(): void {
    const machines = [...this.#containers.values()].map(({ machine }) => machine);
    const names = machines.map(({ name, address }) => `${address} ${name}\n`).join('');
    for (const machine of machines) machine.write('/etc/hosts', `127.0.0.1 localhost\n${names}`);
  }

  /** A port of the host leads to one of the container; who asks for a new certificate by UDP is not there. */
  #publish(port: string, { address }: Machine): void {
    if (port.endsWith('/udp')) return;
    const [outer, inner] = port.split(':').map(Number);
    const script = `require('net').createServer((from) => { const to = require('net').connect(${inner}, '${address}'); for (const [one, other] of [[from, to], [to, from]]) one.on('error', () => other.destroy()).pipe(other); }).listen(${outer})`;
    this.#host.start(this.#host.words(null, [process.execPath, '-e', script]), { PATH });
  }
}
