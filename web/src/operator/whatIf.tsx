/** Another swarm than the one at hand, for the same run: the planner's answer beside that for the swarm as it is. */
import { useState } from 'preact/hooks';
import { type DryRun, dryRunSchema } from '../../../swarm/run/runDraft.ts';
import { Choice, onSubmit, Quantity } from '../page/fields.tsx';
import { Card } from '../page/parts.tsx';
import { Answer, useAct } from './act.tsx';
import { tell } from './api.ts';
import { DryRunWords } from './dryRunWords.tsx';

const FACTORS = [
  ['uploadBytesPerSecond', 'Upload of each'],
  ['downloadBytesPerSecond', 'Download of each'],
  ['bytesPerSecond', 'Rate of links'],
  ['latencySeconds', 'Delay of links'],
  ['memoryBytes', 'Memory of each'],
] as const;
type Factors = Readonly<Record<(typeof FACTORS)[number][0], number>>;
const UNCHANGED: Factors = {
  ...{ uploadBytesPerSecond: 1, downloadBytesPerSecond: 1, bytesPerSecond: 1, latencySeconds: 1, memoryBytes: 1 },
};

const TIMES = [0.1, 0.25, 0.5, 1, 2, 4, 10].map(
  (factor) => [factor, factor === 1 ? 'as it is' : `× ${factor}`] as const,
);

interface Change {
  readonly added: number;
  readonly like: string;
  readonly removed: string;
  readonly factors: Factors;
}

/** In the planner's words; empty: no change. */
export function changeWords({ added, like, removed, factors }: Change): string {
  return [
    ...(added > 0 && like !== '' ? [`add ${added} like ${like}`] : []),
    ...(removed === '' ? [] : [`remove ${removed}`]),
    ...FACTORS.flatMap(([field]) => (factors[field] === 1 ? [] : [`${field} x${factors[field]}`])),
  ].join('; ');
}

export function WhatIf({ peers }: { peers: readonly string[] }) {
  const [change, edit] = useState<Change>({ added: 0, like: '', removed: '', factors: UNCHANGED });
  const [plan, show] = useState<DryRun | null>(null);
  const act = useAct();
  // Whoever was chosen may be gone by now.
  const asked = {
    ...change,
    like: peers.includes(change.like) ? change.like : (peers[0] ?? ''),
    removed: peers.includes(change.removed) ? change.removed : '',
  };
  const words = changeWords(asked);
  const ask = (): void => {
    void act.run(async () => {
      const question = { draft: null, cluster: null, whatIf: words === '' ? null : words };
      const answer = await tell('/api/operator/plan', question, dryRunSchema);
      show(answer.ok ? answer.value : null);
      return answer;
    }, 'This is a prediction. Nothing was changed.');
  };
  if (peers.length === 0) {
    return (
      <Card id="what-if" title="What if">
        <p class="soft empty">
          No donors yet. Once there are some, you can ask what more donors or faster lines would change.
        </p>
      </Card>
    );
  }
  return (
    <form class="card" aria-labelledby="what-if" onSubmit={onSubmit(ask)}>
      <h2 id="what-if">What if</h2>
      <p class="soft small">How other donors or lines would change a step. Nothing is changed by asking.</p>
      <ChangeFields change={asked} edit={edit} peers={peers} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={act.isOff}>
          Predict
        </button>
      </div>
      <Answer answer={act.answer} />
      {plan && <DryRunWords plan={plan} steps={null} />}
    </form>
  );
}

interface FieldsProps {
  readonly change: Change;
  readonly edit: (change: Change) => void;
  readonly peers: readonly string[];
}

function ChangeFields({ change, edit, peers }: FieldsProps) {
  const { added, like, removed, factors } = change;
  return (
    <div class="fields short">
      <Quantity
        label="More donors"
        value={added}
        least={0}
        most={200}
        onInput={(more) => edit({ ...change, added: Math.max(0, Math.floor(more || 0)) })}
      />
      <PeerChoice label="Like whom" value={like} peers={peers} choose={(peer) => edit({ ...change, like: peer })} />
      <PeerChoice
        label="Without"
        none="nobody"
        value={removed}
        peers={peers}
        choose={(peer) => edit({ ...change, removed: peer })}
      />
      {FACTORS.map(([field, label]) => (
        <Choice
          key={field}
          label={label}
          value={factors[field]}
          options={TIMES}
          choose={(factor) => edit({ ...change, factors: { ...factors, [field]: factor } })}
        />
      ))}
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly none?: string;
  readonly value: string;
  readonly peers: readonly string[];
  readonly choose: (peer: string) => void;
}

export function PeerChoice({ label, none, value, peers, choose }: ChoiceProps) {
  return (
    <Choice
      label={label}
      value={value}
      options={[...(none === undefined ? [] : [['', none] as const]), ...peers.map((peer) => [peer, peer] as const)]}
      choose={choose}
    />
  );
}
