/**
 * Who may name whom: the import table and the habits of this repository that a parser can check. Every rule is
 * a row of data here, applied to the syntax tree of every source file, so that a breach has a file and a reason.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { parseSync } from 'vite';
import { describe, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const FOLDERS = ['swarm', 'shaders', 'web', 'signaling-server', 'e2e'];
const LONGEST_TS_LINES = 700;
const LONGEST_WGSL_LINES = 250;
const LONGEST_FUNCTION_LINES = 60;
const MOST_IMPORTS = 20;
const MOST_FIELDS = 15;
/** A shorter file that one other alone imports is a part of that one. */
const SHORTEST_PART_LINES = 40;

interface Import {
  /** A path from the root for our own files, else the package's name. */
  readonly of: string;
  readonly typesOnly: boolean;
}

/** A file, or a folder of them. */
interface Importer {
  readonly path: string;
  readonly imports: readonly Import[];
}

interface Source extends Importer {
  /** Names that stand for themselves: no property, no key. */
  readonly names: ReadonlySet<string>;
  readonly breaches: readonly string[];
  readonly lines: number;
  /** Functions that lie in no other, and types, by what they are called. */
  readonly functionLines: readonly (readonly [string, number])[];
  readonly typeFields: readonly (readonly [string, number])[];
  readonly exported: readonly string[];
}

interface ImportRule {
  readonly files: RegExp;
  readonly may: readonly RegExp[];
  readonly types?: readonly RegExp[];
}

const NATS_LIBRARIES = /^@nats-io\/(transport-node|jetstream|kv|obj)$/;
const SERVER_LIBRARIES =
  /^(@fastify\/(helmet|rate-limit|static|websocket)|fastify|ws|zod|@photostructure\/sqlite|pino|prom-client|commander|cli-progress|playwright|puppeteer-core|tokenizers|@petamoriken\/float16)$/;
const UI_LIBRARY = /^(preact|preact\/hooks|@preact\/signals|uplot)$/;
const COMPUTES = [/^shaders\//, /^web\/src\/(gpu|executor)\//];
/** Rooms of what tests and benchmarks use alone: nothing that runs for people imports from there. */
const TESTING = /(^|\/)testing\//;
const MAY_IMPORT_TESTING = /\.(test|spec)\.tsx?$|\/testing\/|^signaling-server\/bench\/|^e2e\//;

/** A file may import what any row that fits it allows. */
const TABLE: readonly ImportRule[] = [
  { files: /^swarm\//, may: [/^swarm\//, /^zod$/] },
  { files: /^shaders\//, may: [/^shaders\//, /^swarm\//] },
  { files: /^shaders\/kernel\/half\.ts$/, may: [/^@petamoriken\/float16$/] },
  { files: /^shaders\/testing\/(dawn|spirv)\.ts$/, may: [/^node:/, /^webgpu$/] },
  {
    files: /^web\/src\/gpu\//,
    may: [/^web\/src\/gpu\//, /^shaders\//, /^swarm\//],
    types: [/^web\/src\/executor\//], // the interface that it fulfils
  },
  // Shards in main memory: arithmetic of seconds.
  { files: /^web\/src\/gpu\/hostShards\.ts$/, may: [/^web\/src\/executor\/longWork\.ts$/] },
  { files: /^web\/src\/worker\//, may: [/^web\/src\/(worker|net)\//, ...COMPUTES, /^swarm\//, /^comlink$/] },
  // First thing on every page and in every worker.
  {
    files: /^(web\/src\/worker\/worker|signaling-server\/bench\/page\/(main|transportWorker))\.ts$/,
    may: [/^web\/src\/page\/noEval\.ts$/],
  },
  { files: /^web\/src\/worker\/worker\.ts$/, may: [/^web\/src\/page\/clock\.ts$/] }, // a check counts for a week
  {
    files: /^web\/src\/executor\//,
    may: [/^web\/src\/executor\//, /^swarm\//],
    types: [/^web\/src\/net\//],
  },
  { files: /^web\/src\/net\//, may: [/^web\/src\/net\//, /^swarm\//, /^simple-peer$/] },
  { files: /^web\/src\/page\//, may: [/^web\/src\/page\//, /^swarm\//, /^zod$/, UI_LIBRARY] },
  { files: /^web\/src\/(donor|operator|talk)\//, may: [/^web\/src\//, /^swarm\//, UI_LIBRARY] },
  { files: /^web\/src\/donor\/(conditions|credit|download|preferences|reload)\.ts$/, may: [/^zod$/] }, // what a browser kept
  { files: /^web\/src\/donor\/share\.tsx$/, may: [/^uqr$/] },
  { files: /^web\/src\/operator\/hub\.ts$/, may: [/^@huggingface\/hub$/] },
  { files: /^web\/src\/(operator|talk)\//, may: [/^zod$/] }, // what the server's calls answer
  { files: /^web\/src\/testing\//, may: [/^web\/src\//, /^swarm\//] },
  { files: /^signaling-server\//, may: [/^signaling-server\//, /^swarm\//, /^node:/, SERVER_LIBRARIES] },
  // Several servers of one site: nothing else knows what they meet in.
  { files: /^signaling-server\/site\//, may: [NATS_LIBRARIES] },
  { files: /^signaling-server\/commands\/cli\.ts$/, may: [/^package\.json$/] },
  { files: /^signaling-server\/bench\//, may: [...COMPUTES, /^webgpu$/, TESTING] },
  // Its page's half is built with the pages and runs where they do.
  { files: /^signaling-server\/bench\/page\//, may: [/^web\/src\/net\//] },
  { files: /(\.gpu\.test|^signaling-server\/testing\/answerStages)\.ts$/, may: COMPUTES },
  { files: /^signaling-server\/testing\/answerStages\.ts$/, may: [TESTING] },
  { files: /^e2e\//, may: [/^e2e\//, /^swarm\//, /^node:/, /^playwright$/, /^@axe-core\/playwright$/, /^vitest$/] },
  // Which browser there is and what it is started with: as the headless donors' own.
  { files: /^e2e\/(browser|hiddenTab)\.ts$/, may: [/^signaling-server\/headless\/findBrowser\.mjs$/] },
  // A NATS of its own, as the product starts one.
  {
    files: /^e2e\/(servers\.spec|twoServers)\.ts$/,
    may: [/^signaling-server\/site\/natsServer\.ts$/],
  },
  // Donors in namespaces, and a store that is looked into.
  {
    files: /^e2e\/deployment/,
    may: [
      /^signaling-server\/headless\/(headless\.ts|chromium\.ts|findBrowser\.mjs)$/,
      /^signaling-server\/monitoring\/log\.ts$/,
      /^signaling-server\/store\/(dataDirectory|rollBacks)\.ts$/,
    ],
  },
  // The other browser: as the headless donors' own.
  { files: /^e2e\/firefox\.spec\.ts$/, may: [/^signaling-server\/headless\/(findBrowser\.mjs|firefox\.ts)$/] },
  // Donors without a browser, of whom some are hostile.
  { files: /^e2e\/(strangers|crowds|storms)/, may: [TESTING] },
  // A Hub that is none.
  { files: /^e2e\/hub\.spec\.ts$/, may: [TESTING] },
  // A simulated run of many, as the dashboard's bench feeds it.
  {
    files: /^e2e\/pictures\/dashboard\.pictures\.ts$/,
    may: [/^signaling-server\/bench\/(benchDashboard|dashboardFeed)\.ts$/],
  },
  // The one contract of two implementations: here the real one, in a page of its own.
  { files: /^e2e\/link\.spec\.ts$/, may: [/^vite$/, /^web\/src\/testing\/linkContract\.ts$/] },
  { files: /\.test\.tsx?$/, may: [/^vitest$/, /^fast-check$/, /^webgpu$/, /^node:/, TESTING] },
  // OpenAI's own client, against our server.
  { files: /^signaling-server\/answers\/(answerApi|openai)\.test\.ts$/, may: [/^openai$/] },
  { files: /\/vite(\.gpu)?\.config\.ts$/, may: [/^vite$/, /^node:/] },
  { files: /^swarm\/boundaries\.test\.ts$/, may: [/^vite$/] },
];

/** Packages whose API only a few files know, so that it can be replaced. */
const NAMED_IN: Readonly<Record<string, readonly string[]>> = {
  'simple-peer': ['web/src/net/peerConnection.ts'],
  tokenizers: ['signaling-server/texts/tokenizer.test.ts', 'signaling-server/texts/families.test.ts'],
  '@petamoriken/float16': [
    'shaders/kernel/half.ts',
    'signaling-server/weights/elements.ts',
    'signaling-server/weights/elements.test.ts',
  ],
  uqr: ['web/src/donor/share.tsx'],
  '@huggingface/hub': ['web/src/operator/hub.ts'],
  'puppeteer-core': ['signaling-server/headless/firefox.ts'],
  comlink: ['web/src/worker/bridge.ts', 'web/src/worker/worker.ts'],
  '@fastify/websocket': ['signaling-server/http/webSockets.ts'],
  'prom-client': ['signaling-server/monitoring/metrics.ts'],
  // Its sockets come out of the plugin: there it is named for their type, and by the donor that tests script.
  ws: [
    'signaling-server/http/webSockets.test.ts',
    'signaling-server/donors/donorSocket.ts',
    'signaling-server/donors/donorWire.ts',
    'signaling-server/operator/api.ts',
    'signaling-server/operator/session.test.ts',
    'signaling-server/testing/scriptedDonor.ts',
    'signaling-server/donors/network.test.ts',
    'signaling-server/donors/floods.test.ts',
    'signaling-server/bench/benchCrowd.ts',
    'signaling-server/bench/benchServer.ts',
    'signaling-server/bench/benchDashboard.ts',
  ],
};

/** Folders whose sizes and names do not count yet, because they are being rewritten: take out what is done. */
const BEING_REWRITTEN = /^(swarm\/(coordinator|decisions|reference)|signaling-server\/donors)\//;
/** A kernel and a family are as long as their tables. */
const KERNELS = /^shaders\/(?!kernel\/)\w+\//;

/** What may be over a bound, by file, and by name in it: each group with its reason. */
const EXCUSED: Readonly<Record<string, readonly string[]>> = {
  'it joins parts that know nothing of each other': [
    ...['swarm/autoplan/knownDonors.ts', 'swarm/autoplan/replanner.ts', 'swarm/planner/forecast.ts'],
    'shaders/kernels.ts',
    ...[
      'signaling-server/commands/plan.ts',
      'signaling-server/commands/program.ts',
      'signaling-server/commands/swarm.ts',
    ],
    ...['signaling-server/commands/serveSite.ts', 'signaling-server/run/run.ts'],
    ...['signaling-server/operator/plan.ts', 'signaling-server/server.ts', 'signaling-server/server.ts createServer'],
    ...['signaling-server/commands/serveSite.ts serveSite', 'signaling-server/site/rooms.ts'],
    ...[
      'signaling-server/site/site.ts',
      'signaling-server/site/site.ts openSiteData',
      'signaling-server/store/dataDirectory.ts',
    ],
    ...['web/src/donor/donor.ts', 'web/src/donor/main.tsx'],
    ...['web/src/executor/execute.ts', 'web/src/executor/meetings.ts', 'web/src/executor/session.ts'],
    ...['web/src/gpu/kernelCheck.ts', 'web/src/gpu/operations.ts', 'web/src/gpu/stage.ts', 'web/src/operator/view.tsx'],
  ],
  'one route after the other': [...['signaling-server/api/memberApi.ts', 'signaling-server/operator/controls.ts']],
  'an object of short methods over what they share': [
    'signaling-server/operator/session.ts operatorSession',
    ...['signaling-server/site/donorPipe.ts joinWires', 'signaling-server/site/natsJournal.ts openNatsJournal'],
    ...['signaling-server/site/siteBlobs.ts siteBlobs', 'signaling-server/headless/firefox.ts openFirefox'],
  ],
  'a list in its order: cases or operations': [
    ...['shaders/kernel/sampled.ts compareSampled', 'swarm/model/program.ts program'],
  ],
  'options that a person gives, or all of a state or of an interface': [
    ...['signaling-server/commands/servedRun.ts ServeOptions', 'signaling-server/run/runOptions.ts RunOptions'],
    ...['signaling-server/server.ts ServerOptions', 'swarm/autoplan/knownDonors.ts KnownDonor'],
    ...['swarm/autoplan/replannerState.ts ReplannerState', 'swarm/model/program.ts Program'],
    ...['web/src/donor/state.ts DonorState', 'web/src/executor/engine.ts Stage', 'web/src/executor/role.ts Role'],
    ...['web/src/executor/surroundings.ts Surroundings', 'web/src/operator/state.ts OperatorState'],
  ],
};

/** Exported by several files, in several meanings: none is to be added, and each should become one. */
const AMBIGUOUS = [
  'Arrivals Batch BrowserName CONNECTIONS Comparison DonorEvent Entry INITIAL_STATE Inbox Line',
  'Link MeetingSettings Order Pace Packing Placed Proof RETRY_FIRST_MS Role Room RunCard',
  'ServerOptions Shard Standing StepProgress StepTimeline Surroundings Trial aligned begun block',
  'closeAll count countText counted examine failed learningRate monotonicMs networkOf nextState',
  'pieces placeOf positive program read secondsText sentence shardsOf sharesOf wallMs withLinks',
  'withRun',
].flatMap((line) => line.split(' '));

/** Clocks, chance and the outside world: what makes a decision depend on more than its arguments. A `window` is ours. */
const IMPURE =
  /^(Date|performance|set(Timeout|Interval|Immediate)|queueMicrotask|requestAnimationFrame|Math\.random|crypto|process|Buffer|globalThis|document|navigator|location|self|fetch|WebSocket|RTC\w+|HTML\w+|GPU[A-Z]\w*|Worker|localStorage|indexedDB|console)$/;

/** The clock that people and networks set: these two files hand it out, to be read by people. Nothing that lasts is measured by it. */
const NAMES_THE_WALL_CLOCK = ['signaling-server/monitoring/clock.ts', 'web/src/page/clock.ts'];
const WALL_CLOCK = /^(Date\.now|new Date\(\)|performance\.timeOrigin)$/;

/** Vite wants one; a declaration file says what a package has. */
const MAY_EXPORT_A_DEFAULT = /\.(config|d)\.ts$/;

const NAMELESS_FILES = /^(index|utils|helpers|types)\.tsx?$/;

const FUNCTION = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

type Node = Readonly<Record<string, unknown>> & { readonly type: string };
const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

function walk(node: Node, visit: (node: Node, parent: Node | null) => void, parent: Node | null = null): void {
  visit(node, parent);
  for (const value of Object.values(node)) {
    if (Array.isArray(value)) {
      for (const item of value) if (isNode(item)) walk(item, visit, node);
    } else if (isNode(value)) walk(value, visit, node);
  }
}

const isEmpty = (list: unknown): boolean => Array.isArray(list) && list.length === 0;

function isPropertyName(node: Node, parent: Node | null): boolean {
  if (parent === null || parent.computed === true) return false;
  return parent.property === node || (parent.key === node && parent.shorthand !== true);
}

function importOf(node: Node, path: string): Import | null {
  const { source } = node;
  if (!isNode(source) || typeof source.value !== 'string') return null;
  const file = source.value.split('?')[0] ?? '';
  const specifiers = Array.isArray(node.specifiers) ? node.specifiers.filter(isNode) : [];
  const typesOnly =
    node.importKind === 'type' ||
    node.type === 'TSImportType' ||
    (specifiers.length > 0 && specifiers.every(({ importKind }) => importKind === 'type'));
  return { of: file.startsWith('.') ? join(dirname(path), file) : file, typesOnly };
}

/** Only what lies in no other of the list. */
const outermost = (nodes: readonly Node[]): readonly Node[] =>
  nodes.filter((node) => !nodes.some((other) => other !== node && isWithin(node, other)));
const isWithin = (inner: Node, outer: Node): boolean =>
  Number(outer.start) <= Number(inner.start) && Number(inner.end) <= Number(outer.end);

const nameIn = (node: unknown): string | null => (isNode(node) && typeof node.name === 'string' ? node.name : null);

function exportedNames({ type, declaration }: Node): string[] {
  if (type !== 'ExportNamedDeclaration' || !isNode(declaration)) return [];
  const all = Array.isArray(declaration.declarations) ? declaration.declarations.filter(isNode) : [declaration];
  return all.flatMap(({ id }) => nameIn(id) ?? []);
}

function parseSource(path: string, text: string): Source {
  const { program, errors } = parseSync(path, text);
  const imports: Import[] = [];
  const names = new Set<string>();
  const breaches = errors.map(({ message }) => message);
  const functions = new Map<Node, string>();
  const typeFields: [string, number][] = [];
  const exported: string[] = [];
  if (!isNode(program)) throw new Error(`${path} has no syntax tree`);
  walk(program, (node, parent) => {
    if (FUNCTION.test(node.type)) functions.set(node, nameIn(node.id ?? parent?.id ?? parent?.key) ?? 'nameless');
    const fields = node.type === 'TSInterfaceBody' ? node.body : node.type === 'TSTypeLiteral' ? node.members : null;
    if (Array.isArray(fields)) typeFields.push([nameIn(parent?.id) ?? 'nameless', fields.length]);
    exported.push(...exportedNames(node));
    const found = importOf(node, path);
    if (found) imports.push(found);
    if (node.type === 'Identifier' && typeof node.name === 'string' && !isPropertyName(node, parent)) {
      names.add(node.name);
    }
    if (node.type === 'MemberExpression' && isNode(node.object) && isNode(node.property)) {
      names.add(`${String(node.object.name)}.${String(node.property.name)}`);
    }
    if (node.type === 'NewExpression' && isNode(node.callee) && node.callee.name === 'Date' && isEmpty(node.arguments))
      names.add('new Date()');
    if (node.type === 'TSAnyKeyword') breaches.push('names the type any');
    if (node.type === 'TSNonNullExpression') breaches.push('asserts with !');
    if (node.type === 'ExportDefaultDeclaration' && !MAY_EXPORT_A_DEFAULT.test(path))
      breaches.push('exports a default');
    if (node.type.startsWith('Export') && isNode(node.source)) breaches.push('exports what another file makes');
  });
  const functionLines = outermost([...functions.keys()]).map(
    (node) => [functions.get(node) ?? '', lineCount(text.slice(Number(node.start), Number(node.end))) + 1] as const,
  );
  return { path, imports, names, breaches, lines: lineCount(text), functionLines, typeFields, exported };
}

/** What is over a bound: as EXCUSED names it, and by how much. */
function sizeBreaches({ path, imports, functionLines, typeFields }: Source): (readonly [string, string])[] {
  const count = new Set(imports.map(({ of }) => of)).size;
  return [
    ...(count > MOST_IMPORTS ? [[path, `${count} imports`] as const] : []),
    ...functionLines
      .filter(([, lines]) => lines > LONGEST_FUNCTION_LINES)
      .map(([name, lines]) => [`${path} ${name}`, `${lines} lines`] as const),
    ...typeFields
      .filter(([, fields]) => fields > MOST_FIELDS)
      .map(([name, fields]) => [`${path} ${name}`, `${fields} fields`] as const),
  ];
}

/** Short files that one other alone imports, tests not counted. */
function corridors(sources: readonly Source[]): string[] {
  const product = sources.filter(({ path }) => !isTest(path));
  return sources.flatMap(({ path, lines }) => {
    if (lines >= SHORTEST_PART_LINES || !isMeasured(path)) return [];
    const importers = product.filter(({ imports }) => imports.some(({ of }) => of === path));
    return importers.length === 1 ? [`${path}: ${lines} lines, for ${importers[0]?.path} alone`] : [];
  });
}

/** Names that several files export. */
function exportedTwice(sources: readonly Source[]): string[] {
  const by = new Map<string, Set<string>>();
  for (const { path, exported } of sources)
    for (const name of exported) by.set(name, (by.get(name) ?? new Set()).add(path));
  return [...by].filter(([, paths]) => paths.size > 1).map(([name]) => name);
}

function importBreaches({ path, imports }: Source): string[] {
  const rows = TABLE.filter(({ files }) => files.test(path));
  return imports
    .filter(({ of, typesOnly }) => {
      const allowed = rows.flatMap(({ may, types }) => (typesOnly ? [...may, ...(types ?? [])] : may));
      const named = NAMED_IN[of];
      return !allowed.some((pattern) => pattern.test(of)) || (named && !named.includes(path));
    })
    .map(({ of, typesOnly }) => `${path} may not import ${typesOnly ? 'the types of ' : ''}${of}`);
}

/** Only tests, benchmarks and the like may import what is made for them. */
const testingBreaches = ({ path, imports }: Source): string[] =>
  MAY_IMPORT_TESTING.test(path)
    ? []
    : imports.filter(({ of }) => TESTING.test(of)).map(({ of }) => `${path} may not import ${of}: it is for tests`);

const isTest = (path: string): boolean => /\.(test|spec)\.tsx?$/.test(path);

/** Whether sizes and names count: what tests and benchmarks alone use is theirs. */
const isMeasured = (path: string): boolean =>
  !MAY_IMPORT_TESTING.test(path) && !BEING_REWRITTEN.test(path) && !KERNELS.test(path);

function purityBreaches({ path, names }: Source): string[] {
  if (!path.startsWith('swarm/') || isTest(path)) return [];
  return [...names].filter((name) => IMPURE.test(name)).map((name) => `${path} names ${name}`);
}

function clockBreaches({ path, names }: Source): string[] {
  if (isTest(path) || NAMES_THE_WALL_CLOCK.includes(path)) return [];
  return [...names].filter((name) => WALL_CLOCK.test(name)).map((name) => `${path} names ${name}`);
}

/** The first circle of imports, of types too, that this file or folder is part of. */
function circle(start: Importer, sources: ReadonlyMap<string, Importer>): readonly string[] | null {
  const seen = new Set<string>();
  const follow = (path: string, trail: readonly string[]): readonly string[] | null => {
    for (const { of } of sources.get(path)?.imports ?? []) {
      if (of === start.path) return [...trail, of];
      if (seen.has(of)) continue;
      seen.add(of);
      const found = follow(of, [...trail, of]);
      if (found) return found;
    }
    return null;
  };
  return follow(start.path, [start.path]);
}

/** The folders that sources lie in, each as one that imports what its files import from other folders. */
function roomsOf(sources: readonly Source[]): Map<string, Importer> {
  const known = new Set(sources.map(({ path }) => path));
  const rooms = new Map<string, { path: string; imports: Import[] }>();
  for (const { path, imports } of sources) {
    const name = dirname(path);
    const room = rooms.get(name) ?? { path: name, imports: [] };
    rooms.set(name, room);
    for (const { of, typesOnly } of imports)
      if (known.has(of) && dirname(of) !== name) room.imports.push({ of: dirname(of), typesOnly });
  }
  return rooms;
}

function filesUnder(folder: string, name: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const lineCount = (text: string): number => text.split('\n').length - 1;

describe('boundaries', () => {
  const paths = FOLDERS.flatMap((folder) => filesUnder(folder, /\.tsx?$/)).sort();
  const sources = new Map(paths.map((path) => [path, parseSource(path, read(path))]));
  const all = [...sources.values()];

  test('every folder imports only what the table allows', () => {
    expect(all.flatMap(importBreaches)).toEqual([]);
  });

  test('only tests and benchmarks import from testing rooms', () => {
    expect(all.flatMap(testingBreaches)).toEqual([]);
  });

  test('swarm/ knows no clock, no chance and no outside world', () => {
    expect(all.flatMap(purityBreaches)).toEqual([]);
  });

  test('the wall clock is named in one file of the server and one of the pages', () => {
    expect(all.flatMap(clockBreaches)).toEqual([]);
  });

  test('no default exports, no re-exports, no any, no !', () => {
    expect(all.flatMap(({ path, breaches }) => breaches.map((breach) => `${path} ${breach}`))).toEqual([]);
  });

  test('files are named after their main noun', () => {
    expect(paths.filter((path) => NAMELESS_FILES.test(basename(path)))).toEqual([]);
  });

  test('folders stand on floors: no two import each other, directly or by others', () => {
    const rooms = roomsOf(all.filter(({ path }) => !MAY_IMPORT_TESTING.test(path)));
    expect([...rooms.values()].map((room) => circle(room, rooms)?.join(' -> ')).filter(Boolean)).toEqual([]);
  });

  test('what is exported is named by another file', () => {
    const texts = new Map(
      [...paths, 'setup.mjs', ...filesUnder('signaling-server', /\.mjs$/)].map((path) => [path, read(path)]),
    );
    const words = new Map([...texts].map(([path, text]) => [path, new Set(text.match(/[\w$]+/g))]));
    const unused = paths.flatMap((path) =>
      [
        ...(texts.get(path) ?? '').matchAll(
          /^export (?:async )?(?:const|let|function\*?|class|interface|type) ([\w$]+)/gm,
        ),
      ]
        .map(([, name = '']) => name)
        .filter((name) => ![...words].some(([other, named]) => other !== path && named.has(name)))
        .map((name) => `${path} ${name}`),
    );
    expect(unused).toEqual([]);
  });

  test('no circle of imports', () => {
    expect(all.map((source) => circle(source, sources)?.join(' -> ')).filter(Boolean)).toEqual([]);
  });

  test(`no file is longer than ${LONGEST_TS_LINES} lines, no shader than ${LONGEST_WGSL_LINES}`, () => {
    const shaders = filesUnder('shaders', /\.wgsl$/).filter((path) => !path.includes('/golden/'));
    const tooLong = [
      ...paths.filter((path) => lineCount(read(path)) > LONGEST_TS_LINES),
      ...shaders.filter((path) => lineCount(read(path)) > LONGEST_WGSL_LINES),
    ];
    expect(tooLong.map((path) => `${path}: ${lineCount(read(path))} lines`)).toEqual([]);
  });

  const measured = all.filter(({ path }) => isMeasured(path));

  test('functions, types and lists of imports are no longer than a reader can hold', () => {
    const excused = Object.values(EXCUSED).flat();
    const over = measured.flatMap(sizeBreaches);
    expect(over.filter(([name]) => !excused.includes(name)).map((breach) => breach.join(': '))).toEqual([]);
    expect(excused.filter((name) => !over.some(([one]) => one === name))).toEqual([]);
  });

  test('no short file has a single importer', () => {
    expect(corridors(all)).toEqual([]);
  });

  test('a name that is exported means one thing', () => {
    expect(exportedTwice(measured).sort()).toEqual([...AMBIGUOUS].sort());
  });

  test('these checks see what they are for', () => {
    const bad = parseSource(
      'swarm/bad.ts',
      `import { join } from 'node:path';
       import type { Stage } from '../web/src/gpu/stage.ts';
       export { step } from './step.ts';
       export const later = (x: any) => setTimeout(x, Math.random() + Date.now());
       export default later;`,
    );
    expect(importBreaches(bad)).toEqual([
      'swarm/bad.ts may not import node:path',
      'swarm/bad.ts may not import the types of web/src/gpu/stage.ts',
    ]);
    expect(purityBreaches(bad).sort()).toEqual([
      'swarm/bad.ts names Date',
      'swarm/bad.ts names Math.random',
      'swarm/bad.ts names setTimeout',
    ]);
    expect(bad.breaches).toEqual(['exports what another file makes', 'names the type any', 'exports a default']);
    const product = parseSource('swarm/plan/bad.ts', "import { donors } from '../testing/randomPlan.ts';");
    expect(testingBreaches(product)).toEqual([
      'swarm/plan/bad.ts may not import swarm/testing/randomPlan.ts: it is for tests',
    ]);
    const rooms = roomsOf([
      parseSource('swarm/one/a.ts', "import { b } from '../two/b.ts';"),
      parseSource('swarm/one/c.ts', ''),
      parseSource('swarm/two/b.ts', "import type { C } from '../one/c.ts';"),
    ]);
    expect(circle(rooms.get('swarm/one') ?? product, rooms)).toEqual(['swarm/one', 'swarm/two', 'swarm/one']);
    const body = '\n'.repeat(LONGEST_FUNCTION_LINES);
    const fields = Array.from({ length: MOST_FIELDS + 1 }, (_, index) => `a${index}: 1;`).join('');
    const imported = Array.from({ length: MOST_IMPORTS + 1 }, (_, index) => `import './a${index}.ts';`).join('');
    const long = parseSource(
      'swarm/plan/long.ts',
      `${imported} export interface A { ${fields} } export type B = { ${fields} };
       export const f = () => { const g = () => {${body}}; }; class C { m() {${body}} n() {} }`,
    );
    expect(sizeBreaches(long).map((breach) => breach.join(': '))).toEqual([
      'swarm/plan/long.ts: 21 imports',
      'swarm/plan/long.ts f: 61 lines',
      'swarm/plan/long.ts m: 61 lines',
      'swarm/plan/long.ts A: 16 fields',
      'swarm/plan/long.ts B: 16 fields',
    ]);
    const part = parseSource('swarm/plan/part.ts', 'export const A = 1;');
    const [user, its] = ['swarm/plan/user.ts', 'swarm/plan/part.test.ts'].map((path) =>
      parseSource(path, "import { A } from './part.ts';"),
    );
    expect(corridors([part, ...(user && its ? [user, its] : [])])).toEqual([
      'swarm/plan/part.ts: 0 lines, for swarm/plan/user.ts alone',
    ]);
    expect(exportedTwice([long, part])).toEqual(['A']);
    const second = parseSource('web/src/donor/bad.ts', "import Peer from 'simple-peer';");
    expect(importBreaches(second)).toEqual(['web/src/donor/bad.ts may not import simple-peer']);
    const wall = parseSource('web/src/donor/bad.ts', 'export const at = () => [Date.now(), new Date(), new Date(0)];');
    expect(clockBreaches(wall)).toEqual([
      'web/src/donor/bad.ts names Date.now',
      'web/src/donor/bad.ts names new Date()',
    ]);
    const pure = parseSource('swarm/good.ts', 'export const at = (x: { Date: number }) => ({ document: x.Date });');
    expect(purityBreaches(pure)).toEqual([]);
  });
});
