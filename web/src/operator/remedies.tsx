/** What would make a step shorter, worked out by itself: a few changes of the swarm that an operator can bring about, best first. */
import { useContext, useEffect, useState } from 'preact/hooks';
import { dryRunSchema, type Prediction } from '../../../swarm/run/runDraft.ts';
import { percentText } from '../page/format.ts';
import { Card } from '../page/parts.tsx';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { RoleContext } from './act.tsx';
import { tell } from './api.ts';
import type { PeerRow } from './peerRows.ts';
import { millisText } from './timeline.tsx';

interface Change {
  readonly what: string;
  /** As the planner reads it. */
  readonly words: string;
}

/** Pure. Donors whose layers were not measured are left alone. */
function changesFor(rows: readonly Pick<PeerRow, 'peer' | 'layerSeconds'>[]): Change[] {
  const measured = rows
    .filter(({ layerSeconds }) => layerSeconds !== null)
    .toSorted((a, b) => (a.layerSeconds ?? 0) - (b.layerSeconds ?? 0));
  const [fastest, slowest] = [measured[0]?.peer, measured.at(-1)?.peer];
  if (fastest === undefined || slowest === undefined) return [];
  const isAlone = rows.length === 1;
  return [
    { what: `One more donor like ${fastest}`, words: `add 1 like ${fastest}` },
    ...(isAlone
      ? []
      : [
          { what: `Without ${slowest}`, words: `remove ${slowest}` },
          {
            what: 'Twice the upload and download of each',
            words: 'uploadBytesPerSecond x2; downloadBytesPerSecond x2',
          },
        ]),
    { what: 'Twice the memory of each', words: 'memoryBytes x2' },
  ];
}

type Remedy = Change & { readonly after: Prediction; readonly before: Prediction };

const saved = ({ after, before }: Remedy): number => 1 - after.stepSeconds / before.stepSeconds;
/** Less is within what predictions are off. */
const LEAST_SAVED = 0.02;

const COLUMNS: readonly Column<Remedy>[] = [
  heads('What', ({ what }) => what),
  numbers('A step takes', ({ after }) => millisText(after.stepSeconds)),
  numbers('Less by', (remedy) => percentText(saved(remedy))),
];

/** One question after the other, anew for other donors: the server plans in between, and a viewer may ask nothing. */
function useRemedies(
  changes: readonly Change[],
  isViewer: boolean,
): { readonly found: readonly Remedy[]; readonly isWhole: boolean } {
  const [answer, show] = useState<{ readonly found: readonly Remedy[]; readonly asked: number }>({
    found: [],
    asked: 0,
  });
  const key = changes.map(({ words }) => words).join('|');
  useEffect(() => {
    let isOver = false;
    const ask = async (): Promise<void> => {
      let found: readonly Remedy[] = [];
      for (const [place, change] of changes.entries()) {
        const question = { draft: null, cluster: null, whatIf: change.words };
        const predicted = await tell('/api/operator/plan', question, dryRunSchema);
        if (isOver) return;
        const before = predicted.ok ? predicted.value.before : null;
        if (predicted.ok && before) found = [...found, { ...change, before, after: predicted.value }];
        show({ found, asked: place + 1 });
      }
    };
    if (!isViewer) void ask();
    return () => {
      isOver = true;
    };
  }, [key, isViewer]);
  return { found: answer.found, isWhole: answer.asked >= changes.length };
}

export function Remedies({ rows }: { readonly rows: readonly PeerRow[] }) {
  const changes = changesFor(rows);
  const isViewer = useContext(RoleContext) === 'viewer';
  const { found, isWhole } = useRemedies(changes, isViewer);
  const helping = found.filter((one) => saved(one) >= LEAST_SAVED).toSorted((a, b) => saved(b) - saved(a));
  if (changes.length === 0 || isViewer) return null;
  return (
    <Card id="remedies" title="What would help">
      {helping.length > 0 ? (
        <Stacks labelledBy="remedies" columns={COLUMNS} rows={helping} />
      ) : (
        <p class="soft empty">
          {isWhole ? 'No more donors, lines or memory like these would make a step shorter.' : 'Being worked out.'}
        </p>
      )}
    </Card>
  );
}
