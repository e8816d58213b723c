/** When this tab may compute: what a person chooses, and beside it what this browser can see of it. */
import { timeText, trafficText } from '../page/format.ts';
import { AWAY_MINUTES } from './conditions.ts';
import { Amount, MEGABYTE, Preference, type Preferring, Switch, TimeOfDay } from './fields.tsx';
import { LEAST_DAY_BYTES } from './preferences.ts';
import type { DonorState } from './state.ts';

interface ConditionsProps extends Pick<Preferring, 'prefer'> {
  readonly state: DonorState;
}

const EVENING = 22 * 60;
const MORNING = 6 * 60;

export function ConditionsForm({ state, prefer }: ConditionsProps) {
  const { preferences, surroundings, machine } = state;
  const preferring = { preferences, prefer };
  return (
    <>
      <h3>When it may run</h3>
      <p class="soft small">At other times it pauses after the step in progress, and goes on by itself.</p>
      <Hours {...preferring} />
      <Preference
        of="onlyMains"
        name="Only on mains power"
        note={
          surroundings.power === 'unknown'
            ? 'This browser doesn’t say whether the computer runs on battery, so this switch does nothing here.'
            : `Now on ${surroundings.power === 'mains' ? 'mains power' : 'battery'}.`
        }
        {...preferring}
      />
      <Preference
        of="onlyIdle"
        name="Only while I’m not using this computer"
        note={
          surroundings.personSeenBy === 'system'
            ? `The browser tells when nobody has touched the computer for ${AWAY_MINUTES} minutes.`
            : `The browser will ask you to allow this. If you don’t, only this tab counts: it rests until ${AWAY_MINUTES} minutes after you last used it.`
        }
        {...preferring}
      />
      <Preference
        of="onlyVisible"
        name="Only while this tab is on screen"
        note="Pauses when you look at something else, and goes on when you come back."
        {...preferring}
      />
      {machine.isPhone && (
        <Preference
          of="phone"
          name="Train on this phone"
          note="Off by default: a phone gets hot, and its battery is empty within hours."
          {...preferring}
        />
      )}
    </>
  );
}

/** As this computer's clock shows it. */
const ofDay = (minute: number): string => timeText(new Date(2000, 0, 1, 0, minute).getTime());

function Hours({ preferences: { hours }, prefer }: Preferring) {
  const { from, to } = hours ?? { from: EVENING, to: MORNING };
  return (
    <>
      <Switch
        name="Only at certain hours"
        note={`By this computer’s clock. From ${ofDay(EVENING)} to ${ofDay(MORNING)} means overnight.`}
        value={hours !== null}
        onChange={(isWanted) => prefer({ hours: isWanted ? { from, to } : null })}
      />
      {hours && (
        <div class="hours">
          <TimeOfDay name="From" minute={from} onChange={(minute) => prefer({ hours: { from: minute, to } })} />
          <TimeOfDay name="to" minute={to} onChange={(minute) => prefer({ hours: { from, to: minute } })} />
        </div>
      )}
    </>
  );
}

const DAY_CAPS = [
  ['upload-day', 'Upload, at most (MB a day)', 'uploadBytesPerDay'],
  ['download-day', 'Download, at most (MB a day)', 'downloadBytesPerDay'],
] as const;

/** Caps of a day, and what of them is used. */
export function DayCaps({ state, prefer }: ConditionsProps) {
  const { preferences, today } = state;
  return (
    <>
      {DAY_CAPS.map(([id, name, of]) => (
        <Amount
          key={id}
          id={id}
          name={name}
          unit={MEGABYTE}
          least={LEAST_DAY_BYTES}
          value={preferences[of]}
          onChange={(bytes) => prefer({ [of]: bytes })}
        />
      ))}
      <p class="soft small">
        Today: {trafficText(today.sentBytes)} sent, {trafficText(today.receivedBytes)} received, in all tabs. Shortly
        before a day’s limit you hand over your part. At the limit everything stops until midnight.
      </p>
    </>
  );
}
