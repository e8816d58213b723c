/**
 * The donor's limits and preferences as controls: presets and a slider for the GPU's share, numbers for memory and
 * traffic, switches for this tab. Live, but for what the summary of each says.
 */
import { LEAST_SPEED, type Limits, limitsSchema } from '../../../swarm/limits.ts';
import { percentText } from '../page/format.ts';
import { PRESETS, type Preferences } from './preferences.ts';
import type { DonorState } from './state.ts';

const MEBIBYTE = 2 ** 20;
const MEGABYTE = 1e6;

interface LimitsFormProps {
  readonly state: DonorState;
  readonly onLimits: (limits: Limits) => void;
  readonly onPreferences: (preferences: Preferences) => void;
}

export function LimitsForm({ state, onLimits, onPreferences }: LimitsFormProps) {
  const { limits, preferences, machine } = state;
  const change = (part: Partial<Limits>): void => {
    const parsed = limitsSchema.safeParse({ ...limits, ...part });
    if (parsed.success) onLimits(parsed.data); // what is no limit changes nothing
  };
  const prefer = (part: Partial<Preferences>): void => onPreferences({ ...preferences, ...part });
  return (
    <details class="card limits">
      <summary>Limits: what you give</summary>
      <Speed state={state} onChange={(speed) => change({ speed })} />
      <Amount
        id="memory"
        name="GPU memory, at most (MiB)"
        unit={MEBIBYTE}
        value={limits.memoryBytes}
        onChange={(memoryBytes) => change({ memoryBytes })}
      />
      <Amount
        id="upload"
        name="Upload, at most (MB a second)"
        unit={MEGABYTE}
        value={limits.uploadBytesPerSecond}
        onChange={(uploadBytesPerSecond) => change({ uploadBytesPerSecond })}
      />
      <Amount
        id="download"
        name="Download, at most (MB a second)"
        unit={MEGABYTE}
        value={limits.downloadBytesPerSecond}
        onChange={(downloadBytesPerSecond) => change({ downloadBytesPerSecond })}
      />
      <p class="soft small">An empty field means no limit. A new memory limit counts when this GPU next joins.</p>
      <Switch
        name="Only while this tab is on screen"
        note="Pauses when you look at something else, and goes on when you come back."
        value={preferences.onlyVisible}
        onChange={(onlyVisible) => prefer({ onlyVisible })}
      />
      <Switch
        name="Keep this device awake while it computes"
        note="Asks the browser for a wake lock; the screen stays on."
        value={preferences.keepAwake}
        onChange={(keepAwake) => prefer({ keepAwake })}
      />
      <Switch
        name="Hide my IP address from other donors"
        note="Everything goes through the server, or its TURN server: slower. Counts when this GPU next joins."
        value={preferences.relayOnly}
        onChange={(relayOnly) => prefer({ relayOnly })}
      />
      {machine.isPhone && (
        <Switch
          name="Compute on this phone"
          note="Off by default: it gets hot, and the battery drains within hours."
          value={preferences.phone}
          onChange={(phone) => prefer({ phone })}
        />
      )}
    </details>
  );
}

/** What is set, and beside it what is measured. */
function Speed({ state, onChange }: { state: DonorState; onChange: (speed: number) => void }) {
  const { limits, status } = state;
  const percent = Math.round(limits.speed * 100);
  return (
    <>
      <fieldset class="presets">
        <legend>How much of your GPU's time</legend>
        {PRESETS.map(({ name, speed, note }) => (
          <button key={name} type="button" aria-pressed={limits.speed === speed} onClick={() => onChange(speed)}>
            {name}
            <span class="note">
              {percentText(speed)}, {note}
            </span>
          </button>
        ))}
      </fieldset>
      <div class="limit">
        <label for="speed">GPU time</label>
        <input
          id="speed"
          type="range"
          min={LEAST_SPEED * 100}
          max={100}
          step={5}
          value={percent}
          aria-valuetext={`${percent} percent`}
          onChange={({ currentTarget }) => onChange(currentTarget.valueAsNumber / 100)}
        />
        <output for="speed">{percent} %</output>
      </div>
      <p class="soft small">
        {status && status.busyShare !== null
          ? `Measured: busy for ${percentText(status.busyShare)} of the last minute; waiting for others lowers it too.`
          : 'While it computes, this is where the measured share stands.'}
      </p>
    </>
  );
}

interface AmountProps {
  readonly id: string;
  readonly name: string;
  /** Bytes of one. */
  readonly unit: number;
  readonly value: number | null;
  readonly onChange: (bytes: number | null) => void;
}

function Amount({ id, name, unit, value, onChange }: AmountProps) {
  return (
    <div class="limit">
      <label for={id}>{name}</label>
      <input
        id={id}
        type="number"
        min={0}
        step="any"
        placeholder="no limit"
        value={value === null ? '' : value / unit}
        onChange={({ currentTarget }) =>
          onChange(currentTarget.value === '' ? null : currentTarget.valueAsNumber * unit)
        }
      />
    </div>
  );
}

interface SwitchProps {
  readonly name: string;
  readonly note: string;
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
}

function Switch({ name, note, value, onChange }: SwitchProps) {
  return (
    <label class="switch">
      <input type="checkbox" checked={value} onChange={({ currentTarget }) => onChange(currentTarget.checked)} />
      <span>
        {name}
        <span class="note">{note}</span>
      </span>
    </label>
  );
}
