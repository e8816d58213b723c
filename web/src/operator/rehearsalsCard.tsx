/** Faults on purpose: done to a donor that the server opened itself, and what each one cost the run. */
import { useContext, useState } from 'preact/hooks';
import {
  MOST_REHEARSED_FACTOR,
  MOST_REHEARSED_SECONDS,
  PASSING_FAULTS,
  PLAIN_FAULTS,
  type RehearsalRow,
  type RehearsalsShown,
  type RehearsalWish,
  type RehearsedKind,
  rehearsalText,
  rehearsedKindText,
} from '../../../swarm/messages/rehearsal.ts';
import { Choice, Quantity } from '../page/fields.tsx';
import { countText, NOTHING, trafficText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { Answer, Confirm, RoleContext, useAct } from './act.tsx';
import { REHEARSAL_STATES } from './signs.ts';
import { PeerChoice } from './whatIf.tsx';

const KINDS: readonly RehearsedKind[] = [
  'kill',
  ...PASSING_FAULTS,
  'slow',
  ...PLAIN_FAULTS.filter((kind) => kind !== 'kill'),
];

export function RehearsalsCard({ donors, rows, isOver }: RehearsalsShown & { readonly isOver: boolean }) {
  const isViewer = useContext(RoleContext) === 'viewer';
  return (
    <div class="card">
      <h2 id="rehearsals">Rehearse a fault</h2>
      {isOver ? (
        <p class="soft">The run is finished: there is nothing left that a fault could cost.</p>
      ) : donors.length === 0 ? (
        <p class="soft">
          Only donors that this server opened itself can be made to fail on purpose, and none of them is here. Start it
          with <code>--donors 4</code> to have some.
        </p>
      ) : (
        <p class="soft">
          Done on purpose to {donors.length === 1 ? 'the one donor' : `one of the ${donors.length} donors`} that this
          server opened itself. Nobody else’s tab is touched.
        </p>
      )}
      {!isViewer && !isOver && donors.length > 0 && <RehearsalForm donors={donors} />}
      {rows.length > 0 && <Stacks labelledBy="rehearsals" columns={COLUMNS} rows={rows.toReversed()} />}
    </div>
  );
}

function RehearsalForm({ donors }: Pick<RehearsalsShown, 'donors'>) {
  const [kind, choose] = useState<RehearsedKind>('kill');
  const [chosen, chooseDonor] = useState('');
  const [seconds, last] = useState(10);
  const [factor, slow] = useState(3);
  const act = useAct();
  // Whoever was chosen may be gone by now.
  const peer = donors.includes(chosen) ? chosen : (donors[0] ?? '');
  const wish = wishOf(kind, peer, seconds, factor);
  const isPassing = 'seconds' in wish;
  const most = isPassing ? MOST_REHEARSED_SECONDS : MOST_REHEARSED_FACTOR;
  const quantity = isPassing ? seconds : factor;
  const isWhole = (!isPassing && kind !== 'slow') || (quantity >= 1 && quantity <= most);
  const words = rehearsalText(wish);
  return (
    <>
      <div class="fields short">
        <Choice
          label="What"
          value={kind}
          options={KINDS.map((each) => [each, rehearsedKindText(each)] as const)}
          choose={choose}
        />
        <PeerChoice label="Which donor" value={peer} peers={donors} choose={chooseDonor} />
        {(isPassing || kind === 'slow') && (
          <Quantity
            label={isPassing ? 'Seconds' : 'How many times slower'}
            value={quantity}
            least={1}
            most={most}
            onInput={isPassing ? last : slow}
          />
        )}
      </div>
      <div class="buttons">
        <Confirm
          label="Rehearse"
          question={`${peer}: ${words}. This really happens to the run.`}
          disabled={act.isOff || !isWhole}
          onSure={() => void act.tell('/api/operator/rehearse', wish, 'Begun. The table says what it costs.')}
        />
      </div>
      <Answer answer={act.answer} />
    </>
  );
}

function wishOf(kind: RehearsedKind, peer: string, seconds: number, factor: number): RehearsalWish {
  if (kind === 'slow') return { kind, peer, factor };
  return kind === 'freeze' || kind === 'cut' ? { kind, peer, seconds } : { kind, peer };
}

const secondsText = (seconds: number): string => `${seconds.toFixed(1)} s`;

const COLUMNS: readonly Column<RehearsalRow>[] = [
  heads('Donor', ({ wish: { peer } }) => peer),
  { name: 'Fault', beside: '', of: ({ wish, entry }) => <span title={`--chaos ${entry}`}>{rehearsalText(wish)}</span> },
  numbers('Step', ({ step }) => countText(step)),
  { name: 'State', beside: '', of: ({ state }) => <Chip {...REHEARSAL_STATES[state]} /> },
  numbers('Known after', ({ detectedSeconds, state }) => {
    if (detectedSeconds !== null) return secondsText(detectedSeconds);
    return state === 'over' ? 'not noticed' : NOTHING;
  }),
  numbers('Goes on after', ({ resumedSeconds }) => (resumedSeconds === null ? NOTHING : secondsText(resumedSeconds))),
  numbers('Steps given up', ({ stepsGivenUp }) => countText(stepsGivenUp)),
  numbers('Moved', ({ bytesMoved }) => trafficText(bytesMoved)),
];
