/** The donors of the run as fish. */
import { type Fish, Shoal } from '../page/shoal.tsx';
import type { DonorState } from './state.ts';

interface DonorsShoalProps {
  readonly state: DonorState;
  /** They are those who were last seen. */
  readonly isOld: boolean;
}

export function DonorsShoal({ state, isOld }: DonorsShoalProps) {
  const { snapshot, me } = state;
  const fish = (snapshot?.donors ?? []).map(
    ({ peer, state: own }): Fish => ({
      ...{ id: peer, isTraining: own === 'computing', isComing: own === 'joining', isOwn: peer === me },
    }),
  );
  const isTraining = !isOld && fish.some((each) => each.isOwn && each.isTraining);
  return (
    <div class="waters">
      <Shoal fish={fish} steps={snapshot?.committedSteps ?? 0} stepsPerSecond={null} />
      <p class="soft small waters-words">
        {isTraining && 'Yours swims in the ring.'}
        {state.phase.kind === 'spare' && 'Yours waits at the edge, in the ring.'}
      </p>
    </div>
  );
}
