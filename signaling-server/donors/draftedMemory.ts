/**
 * What the largest run that was drafted, or may be, needs of one donor alone: donors try their memory so far, so that
 * whether a draft can be carried is judged by what they have and not by what the run at hand needs.
 */
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import { aloneBytes } from '../../swarm/planner/equalSplit.ts';
import { INITIAL_DRAFT, MODEL_PRESETS, type ModelPreset, runFileOfDraft } from '../../swarm/run/runDraft.ts';
import { batchOf, modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { parseDocument } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';

type Welcome = Extract<ServerMessage, { type: 'welcome' }>;

function bytesOf(file: RunFile): number {
  const { samples, sequence } = batchOf(file);
  return aloneBytes(modelOf(file), samples, sequence);
}

/** Every run of the store, and from each the models that an operator's form offers. */
function largestBytes(store: Store): number {
  const files = [...store.runNames()].flatMap((name) => {
    const row = store.run(name);
    return row === null ? [] : parseDocument(row.document).file;
  });
  const drafts = files.flatMap((file) =>
    Object.keys(MODEL_PRESETS).flatMap((model) => {
      const draft = { ...INITIAL_DRAFT, name: 'draft', source: file.name, model: model as ModelPreset };
      const drafted = runFileOfDraft(draft, file);
      return drafted.ok ? drafted.value : [];
    }),
  );
  return Math.max(0, ...[...files, ...drafts].map(bytesOf));
}

/** What a donor's welcome says of its memory; the runs are looked at again where there is another one. */
export function memoryToTry(store: Store, run: string): (donor: string | null) => Welcome['memory'] {
  let seen = '';
  let draftedBytes = 0;
  return (donor) => {
    const names = [...store.runNames()].join();
    if (names !== seen) draftedBytes = largestBytes(store);
    seen = names;
    const { memoryBytes = 0, memoryTriedBytes } = (donor !== null && store.profile(run, donor)) || {};
    return { draftedBytes, known: memoryTriedBytes === undefined ? null : { memoryBytes, memoryTriedBytes } };
  };
}
