#!/usr/bin/env bash
# What:     @huggingface/jinja 0.5.11 beside Python's Jinja2 (Debian's python3-jinja2, 3.1.2 or later). 2026-11-29.
# Guessed:  what a chat template may use renders the same or is refused by name, as most missing filters are.
# Seen:     without an error: == between lists or objects compares identity; strip('x') strips white space and leaves x;
#           % has the sign of the dividend; none prints nothing (also joined); 1.0 in tojson is 1; lists are printed as JSON
#           with other quotes; capitalize leaves the rest as it was.
# Matters:  a tool call's arguments or a branch of the template differ from what the model was trained with.
# Instead:  in templates: | tojson for values, explicit 'None' texts, no == on lists, no strip with an argument.
source "$(dirname "$0")/common.sh"
python=/usr/bin/python3
"$python" -c 'import jinja2' 2>/dev/null || { echo "$(basename "$0") needs Jinja2: apt-get install python3-jinja2" >&2; exit 2; }
enter @huggingface/jinja@0.5.11
cat > run.mjs <<'JS'
import { execFileSync } from 'node:child_process';
import { Template } from '@huggingface/jinja';
import { end, say } from './say.mjs';

const stated = {
  '{% if [1] == [1] %}equal{% else %}not{% endif %}': ['equal', 'not'],
  "{% if {'a': 1} == {'a': 1} %}equal{% else %}not{% endif %}": ['equal', 'not'],
  "{{ 'xxaxx'.strip('x') }}": ['a', 'xxaxx'],
  '{{ -7 % 3 }}': ['2', '-1'],
  "a {{ none }} {{ [1, none]|join(',') }}": ['a None 1,None', 'a  1,'],
  '{{ [1.0]|tojson }}': ['[1.0]', '[1]'],
  "{{ ['a', none, true] }}": ["['a', None, True]", '["a", null, true]'],
  "{{ 'hELLO'|capitalize }}": ['Hello', 'hELLO'.replace('h', 'H')],
};
const templates = Object.keys(stated);
const program = `import sys, json, jinja2
print(json.dumps([jinja2.__version__] + [jinja2.Environment().from_string(t).render() for t in json.load(sys.stdin)]))`;
const [version, ...python] = JSON.parse(
  execFileSync('/usr/bin/python3', ['-c', program], { input: JSON.stringify(templates), encoding: 'utf8' }),
);
console.log(`Jinja2 ${version}`);
templates.forEach((template, i) => {
  const [inPython, inJavaScript] = stated[template];
  say(`${template}, both`, [python[i], python[i]], [inPython, inJavaScript], [python[i], new Template(template).render({})]);
});
end();
JS
node run.mjs
