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
import type { DonorActions } from './actions.ts';
import { ConditionsForm, DayCaps } from './conditionsForm.tsx';
import { Amount, MEBIBYTE, MEGABYTE, Preference } from './fields.tsx';
import { mayDonate } from './phase.ts';
import { type Preferences, preferencesOf } from './preferences.ts';
import { Presets } from './presets.tsx';
import type { DonorState } from './state.ts';

interface LimitsFormProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
}

const RATES = [
  ['upload', 'Upload, at most (MB a second)', 'uploadBytesPerSecond'],
  ['download', 'Download, at most (MB a second)', 'downloadBytesPerSecond'],
] as const;

const SWITCHES = [
  [
    'smooth',
    'Ease off when this computer feels slow',
    'Takes less of the GPU while this page’s picture stutters, and more again when it doesn’t. Works only while the tab is on screen.',
  ],
  [
    'answers',
    'Answer questions in idle moments',
    'People may ask the model while it trains. Your GPU answers where it would wait for other donors, so training is not slower for it. Never on battery.',
  ],
  ['keepAwake', 'Keep this device awake while it trains', 'The screen stays on. Never on battery.'],
  [
    'relayOnly',
    'Hide my IP address from other donors',
    'Everything then goes through the server, which is slower. Counts from the next time you join.',
  ],
] as const;

export function LimitsForm({ state, actions }: LimitsFormProps) {
  const { limits, preferences } = state;
  const change = (part: Partial<Limits>): void => {
    const parsed = limitsSchema.safeParse({ ...limits, ...part });
    if (parsed.success) actions.limit(parsed.data); // what is no limit changes nothing
  };
  const prefer = (part: Partial<Preferences>): void => {
    const wanted = preferencesOf({ ...preferences, ...part });
    if (wanted) actions.prefer(wanted);
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
        id="host"
        name="Main memory for the optimizer, at most (MiB)"
        unit={MEBIBYTE}
        least={0}
        value={limits.hostBytes === 0 ? null : limits.hostBytes}
        empty="none"
        onChange={(bytes) => change({ hostBytes: Math.floor(bytes ?? 0) })}
      />
      {RATES.map(([id, name, of]) => (
        <Amount
          key={id}
          id={id}
          name={name}
          unit={MEGABYTE}
          least={LEAST_BYTES_PER_SECOND}
          value={limits[of]}
          onChange={(rate) => change({ [of]: rate })}
        />
      ))}
      <DayCaps state={state} prefer={prefer} />
      <p class="soft small">
        Leave a field empty for no limit, or no main memory. It holds what your GPU has no room for, or what your
        processor updates meanwhile. New limits of memory count from the next time you join.
      </p>
      <ConditionsForm state={state} prefer={prefer} />
      <h3>This tab</h3>
      {SWITCHES.map(([of, name, note]) => (
        <Preference key={of} {...{ of, name, note, preferences, prefer }} />
      ))}
    </details>
  );
}

/** What is set, and beside it what is measured. */
function Speed({ state, onChange }: { state: DonorState; onChange: (speed: number) => void }) {
  const { limits, status } = state;
  const percent = Math.round(limits.speed * 100);
  return (
    <>
      {!mayDonate(state) && <Presets speed={limits.speed} onChange={onChange} />}
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
          ? `Measured: busy for ${percentText(status.busyShare)} of the last minute. Waiting for other donors lowers it. Other work on this computer raises it, because the same part takes longer.`
          : 'The measured share shows here while you donate.'}
      </p>
    </>
  );
}
