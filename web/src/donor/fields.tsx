/** The two kinds of field that limits are made of. */
import { useState } from 'preact/hooks';

export const MEBIBYTE = 2 ** 20;
export const MEGABYTE = 1e6;

interface AmountProps {
  readonly id: string;
  readonly name: string;
  /** Bytes of one. */
  readonly unit: number;
  /** Bytes; what is less is said to be too little, and changes nothing. */
  readonly least: number;
  readonly value: number | null;
  readonly onChange: (bytes: number | null) => void;
}

/** Empty: no limit. */
export function Amount({ id, name, unit, least, value, onChange }: AmountProps) {
  // What is being typed stands until it is done: the page is drawn anew four times a second meanwhile.
  const [draft, write] = useState<string | null>(null);
  return (
    <div class="limit">
      <label for={id}>{name}</label>
      <input
        id={id}
        type="number"
        min={least / unit}
        step="any"
        placeholder="no limit"
        value={draft ?? (value === null ? '' : value / unit)}
        onInput={({ currentTarget }) => write(currentTarget.validity.badInput ? null : currentTarget.value)}
        onChange={({ currentTarget }) => {
          const { value: text, valueAsNumber } = currentTarget;
          // What is no limit changes nothing; the browser's own bubble says what was expected.
          if (!currentTarget.reportValidity()) return;
          onChange(text === '' ? null : valueAsNumber * unit);
          write(null);
        }}
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

export function Switch({ name, note, value, onChange }: SwitchProps) {
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
