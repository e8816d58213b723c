/** What an operator tells a run: what makes sense now, and nothing else. Stop asks once, because it lets everyone go. */
import type { OperatorCommand } from '../../../swarm/messages/watch.ts';
import { Press } from '../page/parts.tsx';
import { Answer, Confirm, OPERATORS_ONLY } from './act.tsx';
import type { SectionProps } from './props.ts';
import { whyNot } from './state.ts';

const GO_ON: readonly (readonly [OperatorCommand, string])[] = [
  ['pause', 'Pause'],
  ['resume', 'Resume'],
  ['start', 'Start'],
];

export function Commands({ state, actions, snapshot }: Omit<SectionProps, 'alerts'>) {
  const { asked, answer, connection, role } = state;
  const off = offReason(connection === 'open', asked !== null, snapshot.cannotSave === true);
  const goOn = GO_ON.find(([command]) => whyNot(command, snapshot) === null);
  const mayStop = whyNot('stop', snapshot) === null;
  if (role === 'viewer') return <Answer answer={{ ok: true, sentence: OPERATORS_ONLY }} />;
  return (
    <div class="commands">
      <div class="buttons">
        {goOn && (
          // One button in its place, so that the keyboard stays where it is.
          <Press
            {...(goOn[0] === 'pause' ? {} : { class: 'primary' })}
            isOff={off !== null}
            {...(off === null ? {} : { why: off })}
            onPress={() => actions.command(goOn[0])}
          >
            {goOn[1]}
          </Press>
        )}
        {mayStop && (
          <Confirm
            label="Stop"
            question="Save everything at the end of this step, and let the donors go?"
            disabled={off !== null}
            onSure={() => actions.command('stop')}
          />
        )}
      </div>
      <Answer answer={answer} />
    </div>
  );
}

/** Why nothing can be pressed for the moment; null: it can. */
export function offReason(isOpen: boolean, isAsked: boolean, cannotSave: boolean): string | null {
  if (!isOpen) return 'The server doesn’t answer.';
  if (cannotSave) return 'The server can’t save right now. The run goes on by itself when it can.';
  return isAsked ? 'The server hasn’t answered yet.' : null;
}
