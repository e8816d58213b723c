/** The newest checkpoint of a run as a Hugging Face folder. */
import { type Result, refusal } from '../../swarm/base.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { exportFolder } from '../weights/exportFolder.ts';
import { checkpointWeights, manifestHashes, parseManifest, stateProblem } from './checkpointState.ts';
import type { DataDirectory } from './dataDirectory.ts';
import { parseDocument } from './runDocument.ts';

/** Of the newest checkpoint, or of that after `step` steps. Answers with the folder's path. */
export async function exportRun(
  { store, blobs }: DataDirectory,
  name: string,
  target: string,
  step?: number,
): Promise<Result<string>> {
  const row = store.run(name);
  const newest = store.newestCheckpoint(name);
  const older = step === undefined ? null : store.checkpoint(name, step);
  if (step !== undefined && older === null) return refusal(`checkpoint ${step} of "${name}" is not kept any more`);
  if (row === null || newest === null) {
    return refusal(`there is no run "${name}" here: it has ${store.runNames().join(', ') || 'none'}`);
  }
  const { file, tensorNames, tokenizer } = parseDocument(row.document);
  const manifest = parseManifest(older ?? newest.manifest);
  // The run goes on meanwhile, and newer states supersede this one.
  const letGo = blobs.hold(manifestHashes(manifest));
  try {
    const problem = await stateProblem(blobs, manifest);
    if (problem !== null) return refusal(problem);
    return await exportFolder(target, {
      model: modelOf(file),
      tensorNames,
      read: checkpointWeights(blobs, manifest),
      tokenizer: tokenizer.map(({ name, hash }) => ({ name, bytes: () => blobs.read(hash) })),
      metadata: { format: 'pt', run: name, step: String(step ?? newest.committedSteps) },
    });
  } finally {
    await letGo();
  }
}
