/** What an operator tells a run. Each of the four always stands in its place; one that means nothing now says why. */
import { useState } from 'preact/hooks';
import type { OperatorCommand } from '../../../swarm/messages/watch.ts';
import { Press } from '../page/parts.tsx';
import { Answer, OPERATORS_ONLY } from './act.tsx';
import type { SectionProps } from './props.ts';
import { whyNot } from './state.ts';

const BUTTONS: readonly (readonly [OperatorCommand, string])[] = [
  ['start', 'Start'],
  ['pause', 'Pause'],
  ['resume', 'Resume'],
  ['stop', 'Stop'],
];
const GOES_ON: readonly OperatorCommand[] = ['start', 'resume'];

export function Commands({ state, actions, snapshot }: Omit<SectionProps, 'alerts'>) {
  const { asked, answer, connection } = state;
  const [refused, refuse] = useState<OperatorCommand | null>(null);
  const why = (command: OperatorCommand): string | null => {
    if (state.role === 'viewer') return OPERATORS_ONLY;
    if (connection !== 'open') return 'The server does not answer.';
    return asked === null ? whyNot(command, snapshot) : 'The server has not answered yet.';
  };
  // It goes as soon as it holds no longer.
  const refusal = refused === null ? null : why(refused);
  return (
    <div class="commands">
      <div class="buttons">
        {BUTTONS.map(([command, label]) => {
          const reason = why(command);
          const isNext = reason === null && GOES_ON.includes(command);
          return (
            <Press
              key={command}
              {...(isNext ? { class: 'primary' } : {})}
              isOff={reason !== null}
              {...(reason === null ? {} : { why: reason })}
              onPress={() => {
                refuse(null);
                actions.command(command);
              }}
              onRefused={() => refuse(command)}
            >
              {label}
            </Press>
          );
        })}
      </div>
      <Answer answer={refusal === null ? answer : { ok: true, sentence: refusal }} />
    </div>
  );
}
