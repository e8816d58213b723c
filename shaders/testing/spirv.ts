/**
 * What a driver is given: the SPIR-V that Tint makes of a text, as Dawn lists it, and what of it costs a GPU dearly where it
 * stands in a loop. A process of its own prints it, since Dawn writes to the process's own standard output.
 */
import { spawnSync } from 'node:child_process';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { softwareDriverFile } from './dawn.ts';

const NO_ADAPTER = 3;
/** Compiles each text of the document on standard input; a line before each listing says which it is. */
const PRINT = `
import { create, globals } from 'webgpu';
Object.assign(globalThis, globals);
const texts = JSON.parse(await new Response(process.stdin).text());
const gpu = create(['backend=vulkan', 'enable-dawn-features=dump_shaders']);
const adapter = await gpu.requestAdapter();
if (!adapter) { console.error('no adapter'); process.exit(${NO_ADAPTER}); }
const device = await adapter.requestDevice({ requiredFeatures: ['shader-f16'].filter((name) => adapter.features.has(name)) });
for (const [name, code] of Object.entries(texts)) {
  process.stdout.write('\\n@@@ ' + name + '\\n');
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code });
  device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  const error = await device.popErrorScope();
  if (error) { console.error(name + ': ' + error.message); process.exit(1); }
}
process.stdout.write('', () => process.exit(0));
`;

/** The listing of each text, by the name it is given under. A text that does not compile is an error. */
export function spirvOf(texts: Readonly<Record<string, string>>): Result<ReadonlyMap<string, string>> {
  const driver = process.env.VK_ICD_FILENAMES ?? softwareDriverFile();
  if (driver === undefined) return refusal('there is no Vulkan driver');
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', PRINT], {
    input: JSON.stringify(texts),
    env: { ...process.env, VK_ICD_FILENAMES: driver },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status === NO_ADAPTER) return refusal(`Dawn lists no SPIR-V: ${stderr.trim()}`);
  if (status !== 0) throw new Error(stderr.slice(0, 2000));
  const listings = stdout.split('\n@@@ ').slice(1);
  return success(new Map(listings.map((text) => [text.slice(0, text.indexOf('\n')), text])));
}

/** One line of a listing: `%3 = OpIAdd %uint %1 %2`. */
interface Instruction {
  readonly id: string;
  readonly op: string;
  readonly words: readonly string[];
}

interface Placed extends Instruction {
  readonly inLoop: boolean;
}

/** Memory of an invocation and of its workgroup; storage is always bounded by who runs it. */
const CLAMPS = ['UMin', 'SMin', 'UClamp', 'SClamp'];

/**
 * What should not be there: an invocation's own variables indexed by anything but a constant, which puts them in memory for
 * the whole kernel; and in a loop, or in what is called from one, an index into workgroup or own memory that is bounded first.
 */
export function costlyIndexing(listing: string): string[] {
  const functions = functionsOf(listing);
  const all = functions.flatMap(({ body }) => body);
  const outside = instructionsOf(listing);
  const made = new Map([...outside, ...all].map((one) => [one.id, one]));
  const looped = calledFromLoops(functions);
  const found: string[] = [];
  for (const { id, body } of functions) {
    for (const { op, words, inLoop } of body) {
      if (op === 'OpVectorExtractDynamic' || op === 'OpVectorInsertDynamic') found.push(`${op} ${words.join(' ')}`);
      if (op !== 'OpAccessChain' && op !== 'OpInBoundsAccessChain') continue;
      const [type = '', base = '', ...indices] = words;
      const memory = storageClass(made, base);
      const isOwn = memory === 'Function' || memory === 'Private';
      const variable = indices.find((index) => made.get(index)?.op !== 'OpConstant');
      if (isOwn && variable !== undefined) found.push(`${memory} memory ${base} (${type}) is indexed by ${variable}`);
      const bounded = indices.find((index) => CLAMPS.includes(made.get(index)?.words[2] ?? ''));
      if ((inLoop || looped.has(id)) && memory === 'Workgroup' && bounded !== undefined)
        found.push(`${memory} memory ${base}: its index is bounded by ${made.get(bounded)?.words[2]} in a loop`);
    }
  }
  return found;
}

function instructionsOf(text: string): Instruction[] {
  return text.split('\n').flatMap((line): Instruction[] => {
    const [, id = '', op, rest = ''] = /^\s*(?:(%\w+) = )?(Op\w+) ?(.*)$/.exec(line) ?? [];
    return op === undefined ? [] : [{ id, op, words: rest.split(' ') }];
  });
}

/** Structured control flow: the blocks of a loop stand between its OpLoopMerge and the label that this names. */
function functionsOf(listing: string): { id: string; body: Placed[] }[] {
  const found: { id: string; body: Placed[] }[] = [];
  const ends: string[] = [];
  for (const one of instructionsOf(listing)) {
    if (one.op === 'OpFunction') found.push({ id: one.id, body: [] });
    if (one.op === 'OpLabel' && one.id === ends.at(-1)) ends.pop();
    found.at(-1)?.body.push({ ...one, inLoop: ends.length > 0 });
    if (one.op === 'OpLoopMerge') ends.push(one.words[0] ?? '');
  }
  return found;
}

function calledFromLoops(functions: readonly { id: string; body: readonly Placed[] }[]): ReadonlySet<string> {
  const looped = new Set<string>();
  let before = -1;
  while (looped.size > before) {
    before = looped.size;
    for (const { id, body } of functions) {
      for (const { op, words, inLoop } of body)
        if (op === 'OpFunctionCall' && (inLoop || looped.has(id))) looped.add(words[1] ?? '');
    }
  }
  return looped;
}

/** Of what a chain of pointers begins with; a pointer that is passed to a function is its type's. */
function storageClass(made: ReadonlyMap<string, Instruction>, base: string): string {
  const variable = made.get(base);
  if (variable?.op === 'OpVariable') return variable.words[1] ?? '';
  const pointer = made.get(variable?.words[0] ?? '');
  return pointer?.op === 'OpTypePointer' ? (pointer.words[0] ?? '') : '';
}
