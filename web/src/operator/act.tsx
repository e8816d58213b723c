/** What an operator does beside the four commands: one thing at a time, what cannot be taken back is asked twice. */
import { createContext } from 'preact';
import { useContext, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { z } from 'zod';
import type { Result } from '../../../swarm/base.ts';
import type { Role } from '../../../swarm/messages/watch.ts';
import { SmallButton } from '../page/parts.tsx';
import { tell } from './api.ts';

/** Who looks at the dashboard. */
export const RoleContext = createContext<Role>('operator');
export const OPERATORS_ONLY = 'You are here as a viewer: only an operator may do this.';

export interface Act {
  readonly busy: boolean;
  /** Its buttons cannot be pressed: it is busy, or a viewer looks. */
  readonly isOff: boolean;
  readonly answer: { readonly ok: boolean; readonly sentence: string } | null;
  /** `done`: what is said when it went well. */
  /** Tells the server. */
  tell(path: string, body: unknown, done: string): Promise<boolean>;
  run<Value>(work: () => Promise<Result<Value>>, done: string | ((value: Value) => string)): Promise<boolean>;
  /** What was answered is about something that is another by now. */
  clear(): void;
}

export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const [answer, say] = useState<Act['answer']>(null);
  const isViewer = useContext(RoleContext) === 'viewer';
  const run: Act['run'] = async (work, done) => {
    setBusy(true);
    say(null);
    const result = await work();
    setBusy(false);
    if (!result.ok) say({ ok: false, sentence: result.reason });
    else say({ ok: true, sentence: typeof done === 'string' ? done : done(result.value) });
    return result.ok;
  };
  return {
    busy,
    isOff: busy || isViewer,
    answer: isViewer ? { ok: true, sentence: OPERATORS_ONLY } : answer,
    tell: (path, body, done) => run(() => tell(path, body, z.unknown()), done),
    run,
    clear: () => say(null),
  };
}

/** The line stays where there is no answer: nothing moves when one comes. */
export function Answer({ answer, id }: Pick<Act, 'answer'> & { readonly id?: string }) {
  return (
    <p class={answer?.ok === false ? 'answer' : 'answer soft'} id={id} role="status">
      {answer && !answer.ok && <span aria-hidden="true">✕ </span>}
      {answer?.sentence}
    </p>
  );
}

interface ConfirmProps {
  readonly label: string;
  /** What it does, once more. */
  readonly question: string;
  /** For a screen reader: which of several rows it is about. */
  readonly about?: string;
  readonly disabled?: boolean;
  readonly onSure: () => void;
}

export function Confirm({ label, question, about = '', disabled = false, onSure }: ConfirmProps) {
  const [isAsking, ask] = useState(false);
  const [sure, opener] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)];
  const wasAsked = useRef(false);
  // The button that was pressed is gone, and this one takes its place; at once, or a key that is pressed meanwhile meets another.
  useLayoutEffect(() => {
    if (isAsking) sure.current?.focus();
    else if (wasAsked.current) opener.current?.focus();
    wasAsked.current = isAsking;
  }, [isAsking]);
  const hidden = about !== '' && <span class="hidden"> {about}</span>;
  if (!isAsking)
    return (
      <button type="button" class="small" disabled={disabled} ref={opener} onClick={() => ask(true)}>
        {label}
        {hidden}
      </button>
    );
  return (
    <fieldset
      class="confirm"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === 'Escape') ask(false);
      }}
    >
      <span class="small">{question}</span>
      <button
        type="button"
        class="small primary"
        disabled={disabled}
        ref={sure}
        onClick={() => {
          ask(false);
          onSure();
        }}
      >
        Yes, {label.toLowerCase()}
        {hidden}
      </button>
      <SmallButton onClick={() => ask(false)}>No</SmallButton>
    </fieldset>
  );
}
