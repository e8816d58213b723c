/**
 * `deploy/Containerfile` carried out without an engine for containers: its instructions, one after the other, in folders over
 * this machine's own root. What its base image has beside Debian is Node and a user of that name.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { invariant } from '../../swarm/base.ts';

export interface Image {
  /** What is over this machine's root. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly workFolder: string;
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly healthCheck: readonly string[];
}

export const NODE_USER = 1_000;

interface Stage {
  readonly name: string;
  readonly folder: string;
  readonly environment: Record<string, string>;
  workFolder: string;
  user: string;
  entrypoint: readonly string[];
  healthCheck: readonly string[];
}

/** Of the repository at `context`; in `folder`, where everything is removed with it. */
export function buildImage(context: string, file: string, folder: string): Image {
  const ignored = readFileSync(`${file}.dockerignore`, 'utf8').trim().split('\n');
  const stages: Stage[] = [];
  for (const { name, rest } of instructions(readFileSync(file, 'utf8'))) {
    if (name === 'FROM') {
      stages.push(begun(rest, folder));
      continue;
    }
    const stage = stages.at(-1);
    invariant(stage, 'a stage begins with FROM');
    switch (name) {
      case 'WORKDIR':
        stage.workFolder = rest;
        mkdirSync(stage.folder + rest, { recursive: true });
        break;
      case 'COPY':
        copy(stage, rest, stages, context, ignored);
        break;
      case 'RUN':
        run(stage, rest, folder);
        break;
      case 'ENV':
        for (const [, key = '', value = ''] of rest.matchAll(/(\w+)=(\S+)/g)) stage.environment[key] = value;
        break;
      case 'USER':
        stage.user = rest;
        break;
      case 'ENTRYPOINT':
        stage.entrypoint = words(rest);
        break;
      case 'HEALTHCHECK':
        stage.healthCheck = words(rest.slice(rest.indexOf('CMD ') + 4));
        break;
      default:
        // For whoever starts it, and replaced or mounted over there.
        invariant(['VOLUME', 'EXPOSE', 'CMD'].includes(name), `an instruction that is known: ${name}`);
    }
  }
  const last = stages.at(-1);
  invariant(last, 'there is a stage');
  return last;
}

function instructions(text: string): { readonly name: string; readonly rest: string }[] {
  return text
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ name: line.slice(0, line.indexOf(' ')), rest: line.slice(line.indexOf(' ') + 1).trim() }));
}

const words = (list: string): readonly string[] => JSON.parse(list) as string[];

/** What is not a program: this machine's /etc, with a user `node`. */
export function layBase(folder: string): void {
  execFileSync('cp', ['-a', '/etc', folder]);
  for (const [file, line] of [
    ['passwd', `node:x:${NODE_USER}:${NODE_USER}::/home/node:/bin/sh`],
    ['group', `node:x:${NODE_USER}:`],
  ] as const) {
    const others = readFileSync(`/etc/${file}`, 'utf8')
      .split('\n')
      .filter((entry) => entry.split(':')[2] !== String(NODE_USER));
    writeFileSync(join(folder, 'etc', file), `${line}\n${others.join('\n')}`);
  }
}

function begun(from: string, folder: string): Stage {
  const [, image = '', name = ''] = /^(\S+)(?: AS (\S+))?$/.exec(from) ?? [];
  invariant(/\/node:\d+-/.test(image), `a base that this machine stands for: ${image}`);
  const upper = mkdtempSync(join(folder, 'stage-'));
  layBase(upper);
  return {
    ...{ name, folder: upper, environment: {} },
    workFolder: '/',
    user: 'root',
    entrypoint: [],
    healthCheck: [],
  };
}

function copy(stage: Stage, rest: string, stages: readonly Stage[], context: string, ignored: readonly string[]): void {
  const [, from, list = ''] = /^(?:--from=(\S+) )?(.*)$/.exec(rest) ?? [];
  const sources = list.split(' ');
  const target = sources.pop() ?? '';
  const base = from === undefined ? context : (stages.find(({ name }) => name === from)?.folder ?? '');
  const place = join(stage.folder, stage.workFolder, target);
  for (const source of sources) {
    const path = join(base, source);
    const isInto = target.endsWith('/') || sources.length > 1;
    cpSync(path, isInto ? join(place, source.slice(source.lastIndexOf('/') + 1)) : place, {
      recursive: true,
      filter: (each) => from !== undefined || !ignored.includes(relative(context, each)),
    });
  }
}

/** As root, with this machine's network. */
function run(stage: Stage, command: string, folder: string): void {
  const [work, root] = [mkdtempSync(join(folder, 'work-')), mkdtempSync(join(folder, 'root-'))];
  const script = [
    `mount -t overlay overlay -o lowerdir=/,upperdir=${stage.folder},workdir=${work} ${root}`,
    `mount -t proc proc ${root}/proc`,
    `mount --rbind /dev ${root}/dev`,
    `exec chroot ${root} sh -c "cd ${stage.workFolder} && $0"`,
  ].join(' && ');
  const environment = { ...process.env, NODE_ENV: '', ...stage.environment };
  execFileSync('unshare', ['-m', 'sh', '-c', script, command], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
}
