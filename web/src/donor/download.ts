/**
 * The newest saved state, for who helped to make it: by the token of a tab that takes part, or, once the run is over, by what
 * this browser keeps of the tab that did.
 */
import { z } from 'zod';
import { saveBlob } from '../page/save.ts';

const proofSchema = z.object({ run: z.string().max(200), peer: z.string().max(40), key: z.string().max(100) });
/** That a tab of this browser had a part in a run. */
export type Proof = Readonly<z.infer<typeof proofSchema>>;

export const proofText = (proof: Proof): string => JSON.stringify(proof);

/** Null: none is kept of this run. */
export function proofOf(text: string | null, run: string): Proof | null {
  try {
    const proof = proofSchema.parse(JSON.parse(text ?? ''));
    return proof.run === run ? proof : null;
  } catch {
    return null;
  }
}

/** What came of it, in a sentence. */
export async function download(run: string, bearer: string | null, path = '/api/checkpoint'): Promise<string> {
  const response = await fetch(path, { headers: { authorization: `Bearer ${bearer}` } });
  if (!response.ok) return `Refused by the server (${response.status}): try again in some minutes.`;
  saveBlob(`${run}.tar`, await response.blob());
  return 'Saved: a folder that Hugging Face’s transformers loads, in a tar file.';
}

/** After the run's end. */
export const downloadAgain = ({ run, peer, key }: Proof): Promise<string> =>
  download(run, key, `/api/checkpoint?${new URLSearchParams({ peer, run })}`);
