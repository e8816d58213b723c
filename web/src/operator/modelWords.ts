/** How large a model of a draft is, and what its donors need for it, in words. Pure. */
import { bytesText, counted } from '../../../swarm/quantityText.ts';
import { type ListedRun, MODEL_PRESETS, type RunDraft } from '../../../swarm/run/runDraft.ts';

type Shape = (typeof MODEL_PRESETS)[keyof typeof MODEL_PRESETS];

/** The layers of a transformer have twelve squares of its width. */
export const layerParameters = ({ n_layer, n_embd }: Shape): number => 12 * n_layer * n_embd ** 2;

/** Bytes a parameter while it is trained: its value, its gradient and two moments. */
const TRAINED_BYTES = 16;

/** `own`: that of the run whose model may be taken. */
export function modelText(model: RunDraft['model'], own: ListedRun['model'] | undefined): string {
  if (model === 'same') {
    if (own === undefined) return '';
    const { layers, width, parameters } = own;
    return `${counted(layers, 'layer')}, ${width} numbers wide. ${neededText(parameters)}.`;
  }
  const shape = MODEL_PRESETS[model];
  return `${counted(shape.n_layer, 'layer')}, ${shape.n_embd} numbers wide. ${neededText(layerParameters(shape))} for its layers, and more for its vocabulary.`;
}

const neededText = (parameters: number): string =>
  `Its donors need about ${bytesText(parameters * TRAINED_BYTES)} of GPU memory together`;
