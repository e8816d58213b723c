/** The donor's limits as controls: a slider for the GPU's share, numbers for memory and traffic. Live, but for memory. */
import { LEAST_SPEED, type Limits, limitsSchema } from '../../../swarm/limits.ts';

const MEBIBYTE = 2 ** 20;
const MEGABYTE = 1e6;

interface LimitsFormProps {
  readonly limits: Limits;
  readonly onChange: (limits: Limits) => void;
}

export function LimitsForm({ limits, onChange }: LimitsFormProps) {
  const percent = Math.round(limits.speed * 100);
  const change = (part: Partial<Limits>): void => {
    const parsed = limitsSchema.safeParse({ ...limits, ...part });
    if (parsed.success) onChange(parsed.data); // what is no limit changes nothing
  };
  return (
    <details class="card limits">
      <summary>Limits: what you give</summary>
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
          onChange={({ currentTarget }) => change({ speed: currentTarget.valueAsNumber / 100 })}
        />
        <output for="speed">{percent} %</output>
      </div>
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
    </details>
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
