/** Who is here: a table to sort, each donor's own card, who was shut out, and what another swarm would do. */
import { useMemo, useState } from 'preact/hooks';
import { z } from 'zod';
import type { SnapshotPhase } from '../../../swarm/messages/snapshot.ts';
import { bytesText, rangeText } from '../../../swarm/quantityText.ts';
import { invitedLink } from '../page/ask.ts';
import { countText, NOTHING } from '../page/format.ts';
import { Card, Chip, SmallButton } from '../page/parts.tsx';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { Answer, useAct } from './act.tsx';
import { useAnswer } from './api.ts';
import { Connections } from './connections.tsx';
import { DrawnWhenSeen } from './drawnWhenSeen.tsx';
import { PeerCard } from './peerCard.tsx';
import { type Order, type PeerRow, peerRows, type SortedBy, sorted } from './peerRows.ts';
import type { SectionProps } from './props.ts';
import { Remedies } from './remedies.tsx';
import { donorSign } from './signs.ts';
import { allPlans } from './state.ts';
import { millisText } from './timeline.tsx';
import { WhatIf } from './whatIf.tsx';

const MOST_ROWS = 100;

/** Addresses that were shut out, and the way to let them in again. */
const blocksSchema = z.object({
  blocks: z.array(z.object({ address: z.string(), atMs: z.number(), note: z.string() })),
});

/** `version`: an operator did something, the list may be another. */
function Blocks({ version }: { version: number }) {
  const [{ blocks }, refresh] = useAnswer('/api/operator/blocks', blocksSchema, { blocks: [] }, version);
  const act = useAct();
  if (blocks.length === 0) return null;
  const open = async (address: string): Promise<void> => {
    await act.tell('/api/operator/unblock', { address }, 'The address may join again.');
    refresh();
  };
  return (
    <Card id="blocks" title="Blocked addresses">
      <ul class="rows">
        {blocks.map(({ address, atMs, note }) => (
          <li key={address} class="checkpoint">
            <span>
              Since <time dateTime={new Date(atMs).toISOString()}>{new Date(atMs).toLocaleString()}</time>
              {note !== '' && `: ${note}`}
            </span>
            <SmallButton disabled={act.isOff} onClick={() => void open(address)}>
              Let in again
            </SmallButton>
          </li>
        ))}
      </ul>
      <Answer answer={act.answer} />
    </Card>
  );
}

export function PeersSection({ state, snapshot }: SectionProps) {
  const { donors, planning } = snapshot;
  const [order, sortBy] = useState<Order | null>(null);
  const [chosen, choose] = useState<string | null>(null);
  const [isWhole, whole] = useState(false);
  const rows = useMemo(
    () => peerRows(donors, state.peers, allPlans(state), planning?.reasons ?? []),
    [donors, state.peers, state.plan, state.plansBeside, planning],
  );
  const all = order === null ? rows : sorted(rows, order);
  const shown = isWhole ? all : all.slice(0, MOST_ROWS);
  const ids = donors.map(({ peer }) => peer).join(' ');
  // A plan outlives who left it for a while.
  const links = useMemo(() => {
    const here = new Set<string>(donors.map(({ peer }) => peer));
    return (snapshot.links ?? []).filter(({ from, peer }) => here.has(from) && here.has(peer));
  }, [ids, snapshot.links]);
  // It asks who is here, not how they are.
  const whatIf = useMemo(() => <WhatIf peers={donors.map(({ peer }) => peer)} />, [ids]);
  const row = rows.find(({ peer }) => peer === chosen);
  return (
    <>
      <div class="card">
        <h2 id="donors">Donors</h2>
        {donors.length > 1 && (
          <Connections links={links} events={state.events} turnErrors={snapshot.turnErrors ?? []} />
        )}
        {donors.length === 0 ? (
          <p class="soft empty">
            No donors yet. Share the link of this server’s <a href={invitedLink('/', state.invite)}>start page</a>.
          </p>
        ) : (
          <PeerTable
            rows={shown}
            phase={snapshot.phase}
            order={order}
            sortBy={sortBy}
            chosen={chosen}
            choose={choose}
          />
        )}
        {all.length > shown.length && (
          <p class="buttons">
            <button type="button" onClick={() => whole(true)}>
              All {all.length} donors
            </button>
          </p>
        )}
      </div>
      {row && <PeerCard key={row.peer} row={row} links={links} close={() => choose(null)} />}
      {chosen !== null && !row && <GoneCard peer={chosen} close={() => choose(null)} />}
      <Remedies rows={rows} />
      {whatIf}
      <Blocks version={state.events.findLast(({ kind }) => kind === 'operator')?.id ?? 0} />
    </>
  );
}

function GoneCard({ peer, close }: { readonly peer: string; readonly close: () => void }) {
  return <Card id="donor" title={`Donor ${peer} is gone`} beside={<SmallButton onClick={close}>Close</SmallButton>} />;
}

interface TableProps {
  readonly rows: readonly PeerRow[];
  readonly phase: SnapshotPhase;
  readonly order: Order | null;
  readonly sortBy: (order: Order) => void;
  readonly chosen: string | null;
  readonly choose: (peer: string | null) => void;
}

type Ordered = Pick<TableProps, 'order' | 'sortBy'>;

function sortedBy(by: SortedBy, column: Column<PeerRow>, { order, sortBy }: Ordered): Column<PeerRow> {
  const sort = order?.by === by ? (order.isDescending ? 'descending' : 'ascending') : undefined;
  const press = (): void =>
    sortBy({ by, isDescending: order?.by === by ? !order.isDescending : by !== 'peer' && by !== 'state' });
  return { ...column, sort, button: <SortButton name={column.name} sort={sort} press={press} /> };
}

const PEER = heads<PeerRow>('Donor', ({ peer, facts }) => (
  <>
    {peer}
    {facts?.name && <span class="nickname note">{facts.name}</span>}
  </>
));

const PARTS: readonly Column<PeerRow>[] = [
  { name: 'Stage', of: ({ stages }) => stagesText(stages.map(({ stage }) => stage)) || NOTHING },
  { name: 'Copies of', of: ({ copies }) => stagesText(copies) || NOTHING },
  { name: 'Layers', of: ({ stages }) => stages.map(({ layers }) => rangeText(layers)).join(', ') || NOTHING },
];

const NUMBERS: readonly (readonly [SortedBy, Column<PeerRow>])[] = [
  ['samples', numbers('Samples', ({ samples }) => samples)],
  [
    'layerSeconds',
    numbers('Layer time', ({ layerSeconds }) => (layerSeconds === null ? NOTHING : millisText(layerSeconds))),
  ],
  ['memory', numbers('Memory', ({ facts }) => (facts?.peakBytes == null ? NOTHING : bytesText(facts.peakBytes)))],
  ['tokens', numbers('Tokens', ({ tokens }) => countText(tokens))],
  ['faults', numbers('Faults', ({ facts }) => facts?.faults ?? 0)],
];

function PeerTable({ rows, phase, chosen, choose, ...ordered }: TableProps) {
  // Near the front, where a narrow window has it in sight.
  const more: Column<PeerRow> = {
    name: 'More',
    isSilent: true,
    beside: '',
    of: ({ peer }) => (
      <SmallButton
        about={`of ${peer}`}
        aria-expanded={chosen === peer}
        onClick={() => choose(chosen === peer ? null : peer)}
      >
        More
      </SmallButton>
    ),
  };
  const state: Column<PeerRow> = {
    name: 'State',
    beside: '',
    of: (row) => <Chip {...donorSign(row, phase)} />,
  };
  return (
    <Stacks
      labelledBy="donors"
      columns={[
        sortedBy('peer', PEER, ordered),
        more,
        sortedBy('state', state, ordered),
        ...PARTS,
        ...NUMBERS.map(([by, column]) => sortedBy(by, column, ordered)),
      ]}
      rows={rows}
      kind="many"
      drawn={(cells, { peer }) => (
        <DrawnWhenSeen key={peer} tag="tr" renew={chosen === peer}>
          {cells}
        </DrawnWhenSeen>
      )}
    />
  );
}

const stagesText = (stages: readonly number[]): string => stages.map((stage) => stage + 1).join(', ');

interface SortProps {
  readonly name: string;
  readonly sort: Column<PeerRow>['sort'];
  readonly press: () => void;
}

const SORT_GLYPHS = { ascending: '▲', descending: '▼' } as const;

function SortButton({ name, sort, press }: SortProps) {
  return (
    <button type="button" class="sort" onClick={press}>
      {name} <span aria-hidden="true">{sort === undefined ? '↕' : SORT_GLYPHS[sort]}</span>
    </button>
  );
}
