/** How much of the GPU's time is given, as three words to choose from. */
import { percentText } from '../page/format.ts';
import { PRESETS } from './preferences.ts';

export function Presets({ speed: chosen, onChange }: { speed: number; onChange: (speed: number) => void }) {
  return (
    <fieldset class="presets">
      <legend>How much of your graphics chip (GPU) to lend</legend>
      {PRESETS.map(({ name, speed, note }) => (
        <button key={name} type="button" aria-pressed={chosen === speed} onClick={() => onChange(speed)}>
          {name}
          <span class="note">
            {percentText(speed)}, {note}
          </span>
        </button>
      ))}
    </fieldset>
  );
}
