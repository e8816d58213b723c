/** The kinds of field that limits are made of. What is being typed is nobody's but the person's until it is done. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { clockText, minuteOf } from './conditions.ts';
import type { Preferences } from './preferences.ts';

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
  /** What an empty field means; absent: no limit. */
  readonly empty?: string;
  readonly onChange: (bytes: number | null) => void;
}

export function Amount({ id, name, unit, least, value, empty = 'no limit', onChange }: AmountProps) {
  // What is being typed stands until it is done: the page is drawn anew four times a second meanwhile.
  const [draft, write] = useState<string | null>(null);
  const [isWrong, judge] = useState(false);
  return (
    <div class="limit">
      <label for={id}>{name}</label>
      <input
        id={id}
        type="number"
        aria-invalid={isWrong || undefined}
        aria-describedby={isWrong ? `${id}-wrong` : undefined}
        min={least / unit}
        step="any"
        placeholder={empty}
        value={draft ?? (value === null ? '' : value / unit)}
        onInput={({ currentTarget }) => write(currentTarget.value)}
        onChange={({ currentTarget }) => {
          const { value: text, valueAsNumber, validity } = currentTarget;
          judge(!validity.valid);
          if (!validity.valid) return; // what is no limit changes nothing
          onChange(text === '' ? null : valueAsNumber * unit);
          write(null);
        }}
      />
      {isWrong && (
        <p id={`${id}-wrong`} class="wrong small" role="alert">
          Not changed: enter a number of at least {least / unit}, or nothing for {empty}.
        </p>
      )}
    </div>
  );
}

interface TimeProps {
  readonly name: string;
  /** Since midnight. */
  readonly minute: number;
  readonly onChange: (minute: number) => void;
}

/** Browsers call each key a change; 07:30 is not to be 00:30 and 07:00 on its way. */
const TYPED_MS = 1_500;

export function TimeOfDay({ name, minute, onChange }: TimeProps) {
  // Empty while a part of it is missing.
  const [draft, write] = useState<string | null>(null);
  const commit = (): void => {
    const wanted = draft === null ? null : minuteOf(draft);
    if (wanted !== null && wanted !== minute) onChange(wanted);
  };
  const newest = useRef(commit);
  newest.current = commit;
  useEffect(() => {
    if (draft === null) return;
    const timer = setTimeout(() => newest.current(), TYPED_MS);
    return () => clearTimeout(timer);
  }, [draft]);
  return (
    <label>
      <span>{name}</span>
      <input
        type="time"
        value={draft ?? clockText(minute)}
        onInput={({ currentTarget }) => write(currentTarget.value)}
        onBlur={() => {
          commit();
          write(null);
        }}
      />
    </label>
  );
}

/** What a person prefers, and how it is changed. */
export interface Preferring {
  readonly preferences: Preferences;
  readonly prefer: (part: Partial<Preferences>) => void;
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

interface PreferenceProps extends Preferring, Pick<SwitchProps, 'name' | 'note'> {
  readonly of: { [Key in keyof Preferences]: Preferences[Key] extends boolean ? Key : never }[keyof Preferences];
}

/** A preference that is on or off. */
export const Preference = ({ of, preferences, prefer, ...words }: PreferenceProps) => (
  <Switch {...words} value={preferences[of]} onChange={(isOn) => prefer({ [of]: isOn })} />
);
