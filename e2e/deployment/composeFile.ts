/** `compose.yaml` as far as `deploy/` uses it: a part of YAML (maps, lists, anchors, merges) and of compose's own fields. */
import { invariant } from '../../swarm/base.ts';

type Yaml = string | readonly Yaml[] | { readonly [key: string]: Yaml };
type YamlMap = { readonly [key: string]: Yaml };

interface Line {
  readonly indent: number;
  readonly text: string;
}

export interface Service {
  readonly name: string;
  /** Absent: it is the one that is built. */
  readonly image: string;
  readonly isBuilt: boolean;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly volumes: readonly string[];
  readonly tmpfs: readonly string[];
  readonly ports: readonly string[];
  readonly isOnHost: boolean;
  readonly dependsOn: readonly string[];
}

/** Its services in the order in which they stand there; `variables`: what the shell has set. */
export function readCompose(text: string, variables: Readonly<Record<string, string>>): readonly Service[] {
  const { services } = parse(substituted(text, variables));
  return Object.entries(mapOf(services)).map(([name, service]) => {
    const { image, build, command, environment = {}, volumes = [], tmpfs = [], ports = [], ...rest } = mapOf(service);
    invariant(typeof image === 'string', `${name} has an image`);
    return {
      ...{ name, image, isBuilt: build !== undefined, command: wordsOf(command ?? '') },
      environment: Object.fromEntries(Object.entries(mapOf(environment)).map(([key, value]) => [key, String(value)])),
      ...{ volumes: wordsOf(volumes), tmpfs: wordsOf(tmpfs), ports: wordsOf(ports) },
      ...{ isOnHost: rest.network_mode === 'host', dependsOn: wordsOf(rest.depends_on ?? []) },
    };
  });
}

/** `${NAME}`, and `${NAME:?why}`, which has to be set. */
function substituted(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$\{(\w+)(?::\?([^}]*))?\}/g, (_, name: string) => {
    const value = variables[name];
    invariant(value !== undefined, `${name} is set`);
    return value;
  });
}

function parse(text: string): YamlMap {
  const lines = text.split('\n').flatMap((line): Line[] => {
    const words = line.replace(/(^|\s)#.*$/, '').trimEnd();
    return words === '' ? [] : [{ indent: words.search(/\S/), text: words.trim() }];
  });
  const anchors = new Map<string, Yaml>();
  return mapOf(block(lines, anchors));
}

/** Lines of one depth, with what is deeper below each. */
function block(lines: Line[], anchors: Map<string, Yaml>): Yaml {
  const [first] = lines;
  invariant(first, 'something follows');
  const isList = first.text.startsWith('- ');
  const list: Yaml[] = [];
  const map: Record<string, Yaml> = {};
  for (let line = lines[0]; line !== undefined && line.indent === first.indent; line = lines[0]) {
    lines.shift();
    if (isList) {
      list.push(scalar(line.text.slice(2), anchors));
      continue;
    }
    const [, key = '', rest = ''] = /^([^\s:]+|<<):\s*(.*)$/.exec(line.text) ?? [];
    const [, anchor, value = ''] = /^(?:&(\w+)\s*)?(.*)$/.exec(rest) ?? [];
    const isDeeper = value === '' && (lines[0]?.indent ?? -1) > first.indent;
    const read = isDeeper ? block(lines, anchors) : scalar(value, anchors);
    if (anchor !== undefined) anchors.set(anchor, read);
    if (key === '<<') for (const [name, merged] of Object.entries(mapOf(read))) map[name] ??= merged;
    else map[key] = read;
  }
  return isList ? list : map;
}

function scalar(text: string, anchors: ReadonlyMap<string, Yaml>): Yaml {
  if (text.startsWith('*')) return anchors.get(text.slice(1)) ?? '';
  if (!text.startsWith('[')) return text.replace(/^"(.*)"$/, '$1');
  return text
    .slice(1, -1)
    .split(',')
    .map((word) => word.trim().replace(/^"(.*)"$/, '$1'));
}

function mapOf(value: Yaml | undefined): YamlMap {
  invariant(typeof value === 'object' && !Array.isArray(value), 'a map');
  return value as YamlMap;
}

const wordsOf = (value: Yaml): readonly string[] =>
  typeof value === 'string' ? value.split(/\s+/).filter((word) => word !== '') : (value as readonly string[]);
