/** Fields of forms, each with its name. Pure views. */
import type { ComponentChildren, ComponentProps, HTMLAttributes } from 'preact';

/** What a form does when it is sent: the page stays. */
export const onSubmit =
  (work: (form: HTMLFormElement) => unknown) =>
  (event: SubmitEvent & { readonly currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    void work(event.currentTarget);
  };

interface ChoiceProps<Value> {
  readonly label: string;
  readonly value: Value;
  /** Each with its words. */
  readonly options: readonly (readonly [value: Value, words: string])[];
  readonly choose: (value: Value) => void;
  readonly class?: string;
  /** What else the select itself has. */
  readonly select?: ComponentProps<'select'>;
}

/** One of several. */
export function Choice<Value>({ label, value, options, choose, class: name, select }: ChoiceProps<Value>) {
  return (
    <label class={name}>
      <span>{label}</span>
      <select
        {...select}
        value={String(value)}
        onChange={({ currentTarget }) => {
          const chosen = options[currentTarget.selectedIndex];
          if (chosen) choose(chosen[0]);
        }}
      >
        {options.map(([each, words]) => (
          <option key={String(each)} value={String(each)}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

interface TextProps extends Pick<ChoiceProps<string>, 'value' | 'class'> {
  readonly label: ComponentChildren;
  readonly onInput: (text: string) => void;
}

/** A line that somebody types. */
export function TextField(props: TextProps & { readonly input?: ComponentProps<'input'> }) {
  const { label, value, onInput, class: name, input } = props;
  return (
    <label class={name}>
      <span>{label}</span>
      <input {...input} value={value} onInput={({ currentTarget }) => onInput(currentTarget.value)} />
    </label>
  );
}

/** Several. */
export function TextArea({ label, value, onInput, area }: TextProps & { readonly area: ComponentProps<'textarea'> }) {
  return (
    <label class="block">
      <span>{label}</span>
      <textarea {...area} value={value} onInput={({ currentTarget }) => onInput(currentTarget.value)} />
    </label>
  );
}

interface TickProps extends Pick<ComponentProps<'input'>, 'checked' | 'disabled' | 'children'> {
  readonly onChange: (isOn: boolean) => void;
}

/** What is on or off. */
export function Tick({ onChange, children, ...input }: TickProps) {
  return (
    <label class="check">
      <input type="checkbox" {...input} onChange={({ currentTarget }) => onChange(currentTarget.checked)} />
      <span>{children}</span>
    </label>
  );
}

interface QuantityProps {
  readonly label: string;
  /** Of what, beside the label. */
  readonly unit?: string;
  readonly value: number;
  readonly least: number;
  readonly most?: number;
  readonly onInput: (value: number) => void;
  /** What else the input itself has. */
  readonly input?: Pick<HTMLAttributes<HTMLInputElement>, 'id' | 'aria-invalid' | 'aria-describedby'>;
}

/** A number that somebody types: not a number while there is none. */
export function Quantity({ label, unit, value, least, most, onInput, input }: QuantityProps) {
  return (
    <label>
      <span>
        {label} {unit !== undefined && <span class="note">{unit}</span>}
      </span>
      <input
        type="number"
        required
        min={least}
        max={most}
        step="any"
        {...input}
        value={value}
        onInput={({ currentTarget }) => onInput(currentTarget.valueAsNumber)}
      />
    </label>
  );
}
