/** Faults on purpose: done to a donor that the server opened itself, and what each one cost the run. */
import { useContext, useState } from 'preact/hooks';
import { z } from 'zod';
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
import { countText, NOTHING, shortId, trafficText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { cell, type Head, ROW, ROW_HEAD, Stacks } from '../page/stacks.tsx';
import { Answer, Confirm, RoleContext, useAct } from './act.tsx';
import { tell } from './api.ts';
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
      {rows.length > 0 && (
        <Stacks labelledBy="rehearsals" heads={HEADS}>
          {rows.toReversed().map((row) => (
            <Row key={row.id} row={row} />
          ))}
        </Stacks>
      )}
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
        <label>
          <span>What</span>
          <select value={kind} onChange={(event) => choose(kindOf(event.currentTarget.value))}>
            {KINDS.map((each) => (
              <option key={each} value={each}>
                {rehearsedKindText(each)}
              </option>
            ))}
          </select>
        </label>
        <PeerChoice label="Which donor" value={peer} peers={donors} choose={chooseDonor} />
        {(isPassing || kind === 'slow') && (
          <label>
            <span>{isPassing ? 'Seconds' : 'How many times slower'}</span>
            <input
              type="number"
              required
              min={1}
              max={most}
              value={quantity}
              onInput={(event) => (isPassing ? last : slow)(event.currentTarget.valueAsNumber)}
            />
          </label>
        )}
      </div>
      <div class="buttons">
        <Confirm
          label="Rehearse"
          question={`${shortId(peer)}: ${words}. This really happens to the run.`}
          disabled={act.isOff || !isWhole}
          onSure={() =>
            void act.run(
              () => tell('/api/operator/rehearse', wish, z.unknown()),
              'Begun. The table says what it costs.',
            )
          }
        />
      </div>
      <Answer answer={act.answer} />
    </>
  );
}

const kindOf = (text: string): RehearsedKind => KINDS.find((kind) => kind === text) ?? 'kill';

function wishOf(kind: RehearsedKind, peer: string, seconds: number, factor: number): RehearsalWish {
  if (kind === 'slow') return { kind, peer, factor };
  return kind === 'freeze' || kind === 'cut' ? { kind, peer, seconds } : { kind, peer };
}

const HEADS: readonly Head[] = [
  { name: 'Donor' },
  { name: 'Fault' },
  { name: 'Step', isNumber: true },
  { name: 'State' },
  { name: 'Known after', isNumber: true },
  { name: 'Goes on after', isNumber: true },
  { name: 'Steps given up', isNumber: true },
  { name: 'Moved', isNumber: true },
];

function Row({ row: { wish, entry, step, state, ...cost } }: { readonly row: RehearsalRow }) {
  const { detectedSeconds, resumedSeconds, stepsGivenUp, bytesMoved } = cost;
  const unnoticed = state === 'over' ? 'not noticed' : NOTHING;
  return (
    <tr {...ROW}>
      <th {...ROW_HEAD} title={wish.peer}>
        {shortId(wish.peer)}
      </th>
      <td {...cell()} title={`--chaos ${entry}`}>
        {rehearsalText(wish)}
      </td>
      <td {...cell('Step', 'number')}>{countText(step)}</td>
      <td {...cell()}>
        <Chip {...REHEARSAL_STATES[state]} />
      </td>
      <td {...cell('Known after', 'number')}>{detectedSeconds === null ? unnoticed : secondsText(detectedSeconds)}</td>
      <td {...cell('Goes on after', 'number')}>{resumedSeconds === null ? NOTHING : secondsText(resumedSeconds)}</td>
      <td {...cell('Steps given up', 'number')}>{countText(stepsGivenUp)}</td>
      <td {...cell('Moved', 'number')}>{trafficText(bytesMoved)}</td>
    </tr>
  );
}

const secondsText = (seconds: number): string => `${seconds.toFixed(1)} s`;
