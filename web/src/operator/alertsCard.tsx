/** What should not go on unseen, and how much is too much. The limits are kept in this browser. */
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { type AlertLimits, alertsOf, INITIAL_LIMITS } from './alerts.ts';
import type { SectionProps } from './view.tsx';

const KEY = 'shoal-alert-limits';
const LOOK_MS = 2_000;
const limitsSchema = z.object({
  donors: z.int().min(0).max(10_000),
  checkpointMinutes: z.number().min(1).max(100_000),
});

function keptLimits(): AlertLimits {
  try {
    return limitsSchema.safeParse(JSON.parse(localStorage.getItem(KEY) ?? 'null')).data ?? INITIAL_LIMITS;
  } catch {
    return INITIAL_LIMITS; // a browser that keeps nothing
  }
}

function keepLimits(limits: AlertLimits): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(limits));
  } catch {
    // as above
  }
}

export function AlertsCard({ state, snapshot }: SectionProps) {
  const [limits, limit] = useState(keptLimits);
  const [nowMs, look] = useState(Date.now());
  const [movedAtMs, moved] = useState(Date.now());
  useEffect(() => moved(Date.now()), [snapshot.committedSteps, snapshot.phase]);
  useEffect(() => {
    const timer = setInterval(() => look(Date.now()), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const alerts = alertsOf({ snapshot, curve: state.curve, events: state.events, limits, nowMs, movedAtMs });
  const set = (part: Partial<AlertLimits>): void => {
    const next = limitsSchema.safeParse({ ...limits, ...part });
    if (!next.success) return;
    limit(next.data);
    keepLimits(next.data);
  };
  return (
    <section class="card" aria-labelledby="alerts">
      <h2 id="alerts">Alerts</h2>
      <div class="alerts" aria-live="polite">
        {alerts.length === 0 ? (
          <p class="soft">Nothing to worry about.</p>
        ) : (
          alerts.map((text) => (
            <p key={text} class="notice bad">
              <span aria-hidden="true">⚠ </span>
              {text}
            </p>
          ))
        )}
      </div>
      <details>
        <summary>When to alert</summary>
        <div class="fields">
          <label>
            <span>Donors at work, at least</span>
            <input
              type="number"
              min={0}
              value={limits.donors}
              onInput={(event) => set({ donors: event.currentTarget.valueAsNumber })}
            />
          </label>
          <label>
            <span>Minutes without a checkpoint, at most</span>
            <input
              type="number"
              min={1}
              value={limits.checkpointMinutes}
              onInput={(event) => set({ checkpointMinutes: event.currentTarget.valueAsNumber })}
            />
          </label>
        </div>
        <p class="soft small">
          Kept in this browser. For alerts while nobody looks, the server’s <a href="/metrics">metrics</a> come with
          Prometheus rules and a Grafana board.
        </p>
      </details>
    </section>
  );
}
