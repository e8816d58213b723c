/**
 * Who may call what: every call that the server answers stands here once. The dashboard's are held against it before
 * anything else is looked at; a call that is not in it is nobody's. A viewer sees what an operator sees, and changes
 * nothing.
 */
import type { Role } from '../../swarm/messages/watch.ts';

/**
 * anyone; public: of an invited run as far as its operator says (`--public`), and who is invited; invited: whose link
 * carries the invitation; browser: who has the key that its browser made; donor: who has the token of a donor; asker: who
 * has a key for asking a model, or anyone where its operator says so (`--api`); viewer: who has a session; operator: who
 * has an operator's.
 */
type Who = 'anyone' | 'public' | 'invited' | 'browser' | 'donor' | 'asker' | 'viewer' | 'operator';

export const WHO: Readonly<Record<string, Who>> = {
  'GET /healthz': 'anyone',
  'GET /readyz': 'anyone',
  'GET /preview.png': 'public',
  'GET /api/donor': 'invited',
  'GET /metrics': 'public',
  'GET /api/status': 'public',
  'GET /api/runs': 'public',
  'GET /api/leaderboard': 'public',
  'GET /api/run': 'public',
  'GET /api/sample': 'public',
  'GET /api/talk': 'public',
  'POST /talk/completions': 'public',
  'POST /talk/chat/completions': 'public',
  'GET /api/name': 'browser',
  'PUT /api/name': 'browser',
  'DELETE /api/name': 'browser',
  'GET /v1/*': 'asker',
  'GET /v1/models': 'asker',
  'GET /v1/models/*': 'asker',
  'POST /v1/completions': 'asker',
  'POST /v1/chat/completions': 'asker',
  'GET /api/tokens/:hash': 'donor',
  'GET /api/state/:checkpoint/:block': 'donor',
  'PUT /api/state': 'donor',
  'PUT /api/evidence': 'donor',
  'GET /api/checkpoint': 'donor',
  'GET /api/today': 'donor',
  'POST /api/operator/login': 'anyone',
  'POST /api/operator/logout': 'viewer',
  'GET /api/snapshot': 'viewer',
  'GET /api/watch': 'viewer',
  'GET /api/operator/timeline': 'viewer',
  'GET /api/operator/steps': 'viewer',
  'GET /api/operator/runs': 'viewer',
  'GET /api/operator/models': 'viewer',
  'GET /api/operator/samples': 'viewer',
  'GET /api/operator/blocks': 'viewer',
  'GET /api/operator/export': 'operator',
  'POST /api/operator/plan': 'operator',
  'POST /api/operator/examples': 'operator',
  'POST /api/operator/command': 'operator',
  'POST /api/operator/viewer': 'operator',
  'POST /api/operator/texts': 'operator',
  'POST /api/operator/runs': 'operator',
  'POST /api/operator/activate': 'operator',
  'POST /api/operator/beside': 'operator',
  'POST /api/operator/queue': 'operator',
  'GET /api/operator/card': 'viewer',
  'POST /api/operator/card': 'operator',
  'POST /api/operator/back': 'operator',
  'POST /api/operator/keep': 'operator',
  'POST /api/operator/samples': 'operator',
  'POST /api/operator/alerts': 'operator',
  'GET /api/operator/webhook': 'operator',
  'POST /api/operator/webhook': 'operator',
  'POST /api/operator/webhook/try': 'operator',
  'POST /api/operator/note': 'operator',
  'POST /api/operator/let-go': 'operator',
  'POST /api/operator/rehearse': 'operator',
  'POST /api/operator/unblock': 'operator',
  'GET /api/operator/keys': 'viewer',
  'POST /api/operator/keys': 'operator',
  'POST /api/operator/keys/revoke': 'operator',
};

/** `call`: as in the table. */
export const mayCall = (role: Role, call: string): boolean =>
  WHO[call] === 'viewer' || (WHO[call] === 'operator' && role === 'operator');
