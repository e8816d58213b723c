/** When this tab may compute: what a person chooses, and beside it what this browser can see of it. */
import { timeText, trafficText } from '../page/format.ts';
import { AWAY_MINUTES } from './conditions.ts';
import { Amount, MEGABYTE, Switch, TimeOfDay } from './fields.tsx';
import { LEAST_DAY_BYTES, type Preferences } from './preferences.ts';
import type { DonorState } from './state.ts';

interface ConditionsProps {
  readonly state: DonorState;
  readonly prefer: (part: Partial<Preferences>) => void;
}

const EVENING = 22 * 60;
const MORNING = 6 * 60;

export function ConditionsForm({ state, prefer }: ConditionsProps) {
  const { preferences, surroundings, machine } = state;
  return (
    <>
      <h3>When it may run</h3>
      <p class="soft small">At other times it pauses after the step in progress, and goes on by itself.</p>
      <Hours preferences={preferences} prefer={prefer} />
      <Switch
        name="Only on mains power"
        note={
          surroundings.power === 'unknown'
            ? 'This browser doesn’t say whether the computer runs on battery, so this switch does nothing here.'
            : `Now on ${surroundings.power === 'mains' ? 'mains power' : 'battery'}.`
        }
        value={preferences.onlyMains}
        onChange={(onlyMains) => prefer({ onlyMains })}
      />
      <Switch
        name="Only while I’m not using this computer"
        note={
          surroundings.personSeenBy === 'system'
            ? `The browser tells when nobody has touched the computer for ${AWAY_MINUTES} minutes.`
            : `The browser will ask you to allow this. If you don’t, only this tab counts: it rests until ${AWAY_MINUTES} minutes after you last used it.`
        }
        value={preferences.onlyIdle}
        onChange={(onlyIdle) => prefer({ onlyIdle })}
      />
      <Switch
        name="Only while this tab is on screen"
        note="Pauses when you look at something else, and goes on when you come back."
        value={preferences.onlyVisible}
        onChange={(onlyVisible) => prefer({ onlyVisible })}
      />
      {machine.isPhone && (
        <Switch
          name="Train on this phone"
          note="Off by default: a phone gets hot, and its battery is empty within hours."
          value={preferences.phone}
          onChange={(phone) => prefer({ phone })}
        />
      )}
    </>
  );
}

/** As this computer's clock shows it. */
const ofDay = (minute: number): string => timeText(new Date(2000, 0, 1, 0, minute).getTime());

function Hours({ preferences: { hours }, prefer }: { preferences: Preferences; prefer: ConditionsProps['prefer'] }) {
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

/** Caps of a day, and what of them is used. */
export function DayCaps({ state, prefer }: ConditionsProps) {
  const { preferences, today } = state;
  return (
    <>
      <Amount
        id="upload-day"
        name="Upload, at most (MB a day)"
        unit={MEGABYTE}
        least={LEAST_DAY_BYTES}
        value={preferences.uploadBytesPerDay}
        onChange={(uploadBytesPerDay) => prefer({ uploadBytesPerDay })}
      />
      <Amount
        id="download-day"
        name="Download, at most (MB a day)"
        unit={MEGABYTE}
        least={LEAST_DAY_BYTES}
        value={preferences.downloadBytesPerDay}
        onChange={(downloadBytesPerDay) => prefer({ downloadBytesPerDay })}
      />
      <p class="soft small">
        Today: {trafficText(today.sentBytes)} sent, {trafficText(today.receivedBytes)} received, in all tabs. Shortly
        before a day’s limit you hand over your part. At the limit everything stops until midnight.
      </p>
    </>
  );
}
