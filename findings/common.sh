# Sourced by every script here: checks what the machine needs, makes a folder with pinned packages, removes it at the end.
set -euo pipefail

# needs COMMAND PACKAGE: one sentence where the Debian package that has the command is missing.
needs() {
  command -v "$1" >/dev/null || { echo "$(basename "$0") needs $1: apt-get install $2" >&2; exit 2; }
}

# enter PACKAGE@VERSION …: a fresh folder with these packages, and say.mjs, which compares what is seen with what is stated.
enter() {
  needs node nodejs
  needs npm npm
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  echo '{"type":"module","private":true}' > package.json
  npm install --silent --ignore-scripts --no-audit --no-fund --save-exact "$@"
  echo "with $*, Node $(node --version)"
  cat > say.mjs <<'JS'
const changed = [];
/** Prints one behaviour and remembers it where it is no longer as stated. */
export function say(what, guessed, stated, seen) {
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
  console.log(`\n${what}\n  guessed: ${text(guessed)}\n  seen:    ${text(seen)}`);
  if (text(seen) !== text(stated)) changed.push(`${what}: stated ${text(stated)}, seen ${text(seen)}`);
}
/** Ends the process: 0 where all is as stated, 1 where something changed. */
export function end() {
  console.log(changed.length === 0 ? '\nas stated' : `\nchanged: ${changed.join('; ')}`);
  process.exit(changed.length === 0 ? 0 : 1);
}
JS
}

# enter_python PACKAGE==VERSION …: a fresh folder with a Python of its own that has these packages, own/bin/python.
enter_python() {
  local python=${PYTHON:-python3}
  "$python" -c 'import venv, ensurepip' 2>/dev/null || { echo "$(basename "$0") needs venv: apt-get install python3-venv" >&2; exit 2; }
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  "$python" -m venv own
  own/bin/pip install --quiet "$@"
}
