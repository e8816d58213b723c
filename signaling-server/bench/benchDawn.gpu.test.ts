import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { arrayOf, invariant } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { encodeHeader } from '../../swarm/model/safetensors.ts';
import { CommandFailure } from '../commands/failure.ts';
import { runCommand } from '../commands/program.ts';
import { Captured } from '../testing/captured.ts';
import { inDawn } from './benchDawn.ts';
import { benchConfig } from './page/step.ts';

const SIZE = 2 ** 24;

/** Some hundred megabytes of copies. */
function submitWork(device: GPUDevice): void {
  const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const [from, to] = [device.createBuffer({ size: SIZE, usage }), device.createBuffer({ size: SIZE, usage })];
  const encoder = device.createCommandEncoder();
  for (let i = 0; i < 20; i++) encoder.copyBufferToBuffer(from, 0, to, 0, SIZE);
  device.queue.submit([encoder.finish()]);
}

test('the device is given back when its queue is empty, also where the work failed', async () => {
  const order: string[] = [];
  let lost: Promise<unknown> = Promise.resolve();
  const ended = inDawn('dawn', 'f32', async ({ device }) => {
    submitWork(device);
    void device.queue.onSubmittedWorkDone().then(() => order.push('queue empty'));
    lost = device.lost.then(({ reason }) => order.push(reason));
    throw new Error('the work failed');
  });
  const error = await ended.catch((cause: unknown) => cause);
  if (error instanceof CommandFailure) return console.warn(`skipped: ${error.message}`);
  expect(error).toEqual(new Error('the work failed'));
  await lost;
  expect(order).toEqual(['queue empty', 'destroyed']);
});

test('[FI12] a step that begins at weights with a head of their own has that head', async () => {
  const captured = new Captured();
  captured.begin();
  const log = vi.spyOn(console, 'log').mockReturnValue();
  try {
    const shape = { layers: 1, width: 4, heads: 2, sequence: 4, vocabulary: 8 };
    const model = modelFromConfig(benchConfig({ family: 'gpt2', ...shape, tied: false }));
    invariant(model.ok, 'a model');
    const tensors = model.value.blocks.flatMap((block) => block.tensors);
    const values = tensors.flatMap(({ name, elements }) =>
      arrayOf(elements, (i) => (name === 'lm_head.weight' ? 0 : Math.sin(i + 1))),
    );
    const path = join(captured.folder, 'init.safetensors');
    writeFileSync(path, Buffer.concat([encodeHeader(tensors), new Uint8Array(Float32Array.from(values).buffer)]));
    const sizes = Object.entries(shape).flatMap(([name, size]) => [`--${name}`, `${size}`]);
    const words = ['bench', 'step', '--adapter', 'dawn', '--steps', '1', '--init', path, '--json', ...sizes];
    const code = await runCommand(words);
    if (code === 1) return console.warn(`skipped: ${captured.errors}`); // no adapter
    expect(code, captured.errors).toBe(0);
    // A head of zeros finds all tokens as likely.
    expect(JSON.parse(String(log.mock.calls[0]?.[0])).losses[0]).toBeCloseTo(Math.log(shape.vocabulary), 6);
  } finally {
    log.mockRestore();
    captured.end();
  }
});

test.runIf(process.env.SHOAL_LONG === '1')(
  'audits convict nobody who is honest, each gross cheat, and none whose drift is below what rounding may be',
  { timeout: 600_000 },
  async () => {
    const captured = new Captured();
    captured.begin();
    const log = vi.spyOn(console, 'log').mockReturnValue();
    try {
      const code = await runCommand(['bench', 'trust', '--items', '24', '--json']);
      if (code === 1) return console.warn(`skipped: ${captured.errors}`); // no adapter
      expect(code, captured.errors).toBe(0);
      const { classes, cheats } = JSON.parse(String(log.mock.calls[0]?.[0]));
      expect(classes.map(({ convicted }: { convicted: number }) => convicted)).toEqual(arrayOf(6, () => 0));
      const found: number[] = cheats.map(({ detected }: { detected: number }) => detected);
      expect(found).toEqual([...arrayOf(9, () => 1), 0]);
    } finally {
      log.mockRestore();
      captured.end();
    }
  },
);
