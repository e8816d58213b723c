/** What operators note of a run, for themselves. */
import { useState } from 'preact/hooks';
import { noteSchema } from '../../../swarm/run/runDraft.ts';

interface NoteProps {
  readonly run: string;
  readonly note: string;
  readonly isOff: boolean;
  readonly save: (note: string) => void;
}

export function RunNote({ run, note, isOff, save }: NoteProps) {
  const [written, write] = useState<string | null>(null);
  if (written === null)
    return (
      <div class="run-note">
        {note !== '' && <p class="noted">{note}</p>}
        <button type="button" class="small" disabled={isOff} onClick={() => write(note)}>
          {note === '' ? 'Add a note' : 'Change the note'}
          <span class="hidden"> on {run}</span>
        </button>
      </div>
    );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save(written);
        write(null);
      }}
    >
      <label class="block">
        <span>Note on {run}, for operators</span>
        <textarea rows={2} maxLength={2000} value={written} onInput={(event) => write(event.currentTarget.value)} />
      </label>
      <div class="buttons">
        <button type="submit" class="small" disabled={isOff || !noteSchema.safeParse(written).success}>
          Save the note
        </button>
        <button type="button" class="small" onClick={() => write(null)}>
          Cancel
        </button>
      </div>
    </form>
  );
}
