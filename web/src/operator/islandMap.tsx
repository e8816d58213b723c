/** Islands as boxes on the map: who computes which, how far each is, and inside its group's box the stages of its plan. */
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import type { StepUse } from '../../../swarm/timeline/waits.ts';
import { innerStepsText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { groupText, type IslandGroup, islandSign, plansOf } from './islandGroups.ts';
import { SwarmMap } from './swarmMap.tsx';
import type { Link } from './swarmShape.ts';

/** Of a group whose plan is not drawn. */
const MOST_NAMED = 6;

interface IslandMapProps {
  readonly groups: readonly IslandGroup[];
  readonly plans: readonly PlanInForce[];
  readonly links: readonly Link[];
  readonly use: StepUse | null;
}

export function IslandMap({ groups, plans, links, use }: IslandMapProps) {
  return (
    <div class={`groups${groups.length > 1 ? ' several' : ''}`}>
      {groups.map((group) => (
        <section key={group.islands[0]?.number} class="group" aria-label={groupText(group)}>
          <h3>
            {groupText(group)} <span class="soft plain">round {group.round + 1}</span>
          </h3>
          <ul class="islands">
            {group.islands.map((island) => (
              <IslandBox key={island.number} group={group} island={island} isNamed={group.islands.length > 1} />
            ))}
          </ul>
          <Donors group={group} plans={plans} links={links} use={use} />
        </section>
      ))}
    </div>
  );
}

interface BoxProps {
  readonly group: IslandGroup;
  readonly island: IslandGroup['islands'][number];
  /** One that is alone in its group has its name above it. */
  readonly isNamed: boolean;
}

function IslandBox({ group, island, isNamed }: BoxProps) {
  const { number, innerStep, innerSteps } = island;
  return (
    <li class={`island${number === group.active ? ' active' : ''}`}>
      {isNamed && <strong>Island {number + 1}</strong>}
      <Chip {...islandSign(group, island)} />
      {innerSteps !== null && (
        <meter
          min={0}
          max={Math.max(1, innerSteps)}
          value={innerStep}
          aria-label={`Island ${number + 1} in this round`}
        />
      )}
      <span class="note">{innerStepsText(island)}</span>
    </li>
  );
}

function Donors({ group, plans, links, use }: Pick<BoxProps, 'group'> & Omit<IslandMapProps, 'groups'>) {
  const { donors } = group;
  const drawn = plansOf(group, plans);
  if (drawn.length > 0) return drawn.map((plan) => <SwarmMap key={plan.epoch} plan={plan} links={links} use={use} />);
  const named = donors.slice(0, MOST_NAMED).join(', ');
  const more = donors.length > MOST_NAMED ? ` and ${donors.length - MOST_NAMED} more` : '';
  return <p class="soft small">{donors.length === 0 ? 'Nobody trains them now.' : `Trained by ${named}${more}.`}</p>;
}
