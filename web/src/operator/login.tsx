/** The way in: a token that the server printed, good for one session. */
import type { OperatorState } from './state.ts';

interface LoginProps {
  readonly login: OperatorState['login'];
  readonly send: (token: string) => void;
}

/** What the server says of a token that it does not take. */
export function Refusal({ problem }: Pick<OperatorState['login'], 'problem'>) {
  return (
    <p id="login-problem" class="answer" role="alert">
      {problem && (
        <>
          <span aria-hidden="true">✕ </span>
          {problem}
        </>
      )}
    </p>
  );
}

export function Login({ login: { busy, problem }, send }: LoginProps) {
  return (
    <main class="narrow">
      <form
        class="card login"
        onSubmit={(event) => {
          event.preventDefault();
          send(String(new FormData(event.currentTarget).get('token') ?? '').trim());
        }}
      >
        <h1>Log in as operator</h1>
        <p class="soft">
          The server printed a one-time token when it started. Using it prints the next one. An operator’s dashboard
          makes tokens for viewers.
        </p>
        <label for="token">Operator token</label>
        <div class="login-row">
          <input
            id="token"
            name="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="login-problem"
            aria-invalid={problem !== null}
          />
          <button type="submit" class="primary" disabled={busy}>
            Log in
          </button>
        </div>
        <Refusal problem={problem} />
      </form>
    </main>
  );
}
