/**
 * The donor's limits and preferences as controls: presets and a slider for the GPU's share, numbers for memory and
 * traffic, when it may compute, switches for this tab. Live, but for what the words beside each say.
 */
import {
  LEAST_BYTES_PER_SECOND,
  LEAST_MEMORY_BYTES,
  LEAST_SPEED,
  type Limits,
  limitsSchema,
} from '../../../swarm/limits.ts';
import { percentText } from '../page/format.ts';
import { ConditionsForm, DayCaps } from './conditionsForm.tsx';
import { Amount, MEBIBYTE, MEGABYTE, Switch } from './fields.tsx';
import { PRESETS, type Preferences, preferencesOf } from './preferences.ts';
import type { DonorState } from './state.ts';

interface LimitsFormProps {
  readonly state: DonorState;
  readonly onLimits: (limits: Limits) => void;
  readonly onPreferences: (preferences: Preferences) => void;
}

export function LimitsForm({ state, onLimits, onPreferences }: LimitsFormProps) {
  const { limits, preferences } = state;
  const change = (part: Partial<Limits>): void => {
    const parsed = limitsSchema.safeParse({ ...limits, ...part });
    if (parsed.success) onLimits(parsed.data); // what is no limit changes nothing
  };
  const prefer = (part: Partial<Preferences>): void => {
    const wanted = preferencesOf({ ...preferences, ...part });
    if (wanted) onPreferences(wanted);
  };
  return (
    <details class="card limits">
      <summary>Limits: what you give</summary>
      <Speed state={state} onChange={(speed) => change({ speed })} />
      <Amount
        id="memory"
        name="GPU memory, at most (MiB)"
        unit={MEBIBYTE}
        least={LEAST_MEMORY_BYTES}
        value={limits.memoryBytes}
        onChange={(bytes) => change({ memoryBytes: bytes && Math.floor(bytes) })}
      />
      <Amount
        id="upload"
        name="Upload, at most (MB a second)"
        unit={MEGABYTE}
        least={LEAST_BYTES_PER_SECOND}
        value={limits.uploadBytesPerSecond}
        onChange={(uploadBytesPerSecond) => change({ uploadBytesPerSecond })}
      />
      <Amount
        id="download"
        name="Download, at most (MB a second)"
        unit={MEGABYTE}
        least={LEAST_BYTES_PER_SECOND}
        value={limits.downloadBytesPerSecond}
        onChange={(downloadBytesPerSecond) => change({ downloadBytesPerSecond })}
      />
      <DayCaps state={state} prefer={prefer} />
      <p class="soft small">An empty field means no limit. A new memory limit counts when this GPU next joins.</p>
      <ConditionsForm state={state} prefer={prefer} />
      <h3>This tab</h3>
      <Switch
        name="Make way for this computer’s own picture"
        note="Takes less of the GPU while the frames of this page come late, and more again when they do not. Only while the tab is on screen: a hidden one has no frames."
        value={preferences.smooth}
        onChange={(smooth) => prefer({ smooth })}
      />
      <Switch
        name="Keep this device awake while it computes"
        note="Asks the browser for a wake lock, but never on battery; the screen stays on."
        value={preferences.keepAwake}
        onChange={(keepAwake) => prefer({ keepAwake })}
      />
      <Switch
        name="Hide my IP address from other donors"
        note="Everything goes through the server, or its TURN server: slower. Counts when this GPU next joins."
        value={preferences.relayOnly}
        onChange={(relayOnly) => prefer({ relayOnly })}
      />
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
          onInput={({ currentTarget }) => onChange(currentTarget.valueAsNumber / 100)}
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
