/**
 * Regular expressions that may take for ever: with a repetition without an end, or a choice, inside a repetition without
 * an end there can be as many ways through a text as it has subsets. Tokenizers have no need of them.
 */

/** The first pattern in a tokenizer.json that is one; null: there is none. */
export function explosivePattern(json: unknown): string | null {
  const waiting: unknown[] = [json];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    for (const [key, value] of Object.entries(next)) {
      if (key === 'Regex' && typeof value === 'string' && mayExplode(value)) return value;
      if (key !== 'vocab' && key !== 'merges' && typeof value === 'object' && value !== null) waiting.push(value);
    }
  }
  return null;
}

interface Group {
  repeats: boolean;
  chooses: boolean;
}

const REPEATS = /^(?:[*+]|\{\d*,\})/;

export function mayExplode(pattern: string): boolean {
  const open: Group[] = [{ repeats: false, chooses: false }];
  for (let at = 0; at < pattern.length; at++) {
    const inside = open.at(-1) ?? { repeats: false, chooses: false };
    const letter = pattern[at];
    if (letter === '\\') at++;
    else if (letter === '[') at = endOfClass(pattern, at);
    else if (letter === '(') open.push({ repeats: false, chooses: false });
    else if (letter === '|') inside.chooses = true;
    else if (letter === ')') {
      open.pop();
      const isRepeated = REPEATS.test(pattern.slice(at + 1, at + 12));
      if (isRepeated && (inside.repeats || inside.chooses)) return true;
      const around = open.at(-1);
      if (around === undefined) return false; // no regular expression: the library says so
      around.repeats ||= inside.repeats || isRepeated;
    } else if (REPEATS.test(pattern.slice(at, at + 12))) inside.repeats = true;
  }
  return false;
}

function endOfClass(pattern: string, start: number): number {
  for (let at = start + 1; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++;
    else if (pattern[at] === ']') return at;
  }
  return pattern.length;
}
