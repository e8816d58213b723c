import { expect, test } from 'vitest';
import { MODEL_PRESETS } from '../../../swarm/run/runDraft.ts';
import { aboutText } from '../page/format.ts';
import { layerParameters, modelText } from './draftModel.tsx';

test('a draft says of each model how large it is, and what memory it takes', () => {
  expect(Object.values(MODEL_PRESETS).map((shape) => aboutText(layerParameters(shape)))).toEqual([
    ...['25 thousand', '790 thousand', '25 million', '85 million'],
  ]);
  expect(modelText('medium', undefined)).toBe(
    '8 layers, 512 numbers wide. Its donors need about 384 MiB of GPU memory together for its layers, and more for its vocabulary.',
  );
  const own = { family: 'gpt2', layers: 1, width: 32, parameters: 65_536, standing: 0 };
  expect(modelText('same', own)).toBe(
    '1 layer, 32 numbers wide. Its donors need about 1.0 MiB of GPU memory together.',
  );
  expect(modelText('same', { ...own, standing: 3 * 2 ** 20 })).toContain('about 13 MiB');
  expect(modelText('same', { ...own, parameters: 0, standing: 2 ** 20 })).toContain(
    'about 4.0 MiB of GPU memory together, and a little more for the adapter.',
  );
  expect(modelText('same', undefined)).toBe('');
});
