// The legacy flow: `k6 run tests/k6/legacy.js`. RATE scales it (1), DURATION is how long it lasts (30s).
//
//   LEGACY_URL                             where the hosts are
//   LEGACY_HOST, LEGACY_AUTH_SERVER_HOST   their names
//   LEGACY_CLIENT_ID, LEGACY_REDIRECT_URI  a client without a secret
//   API_URL, USERNAME, PASSWORD            as in pair.js

import { check, fail } from 'k6'
import http from 'k6/http'
import { api, person, query } from './pair.js'

const setting = (name, otherwise) => __ENV[name] || otherwise
const address = setting('LEGACY_URL', 'http://127.0.0.1:8083')
const host = setting('LEGACY_HOST', 'us1.legacy.example')
const authServerHost = setting('LEGACY_AUTH_SERVER_HOST', 'sso-us1.legacy.example')
const clientId = setting('LEGACY_CLIENT_ID', 'legacy-demo')
const redirectUri = setting('LEGACY_REDIRECT_URI', 'http://localhost:8090/callback')

const rate = Number(__ENV.RATE || 1)
const duration = __ENV.DURATION || '30s'

export const options = {
  scenarios: {
    status: {
      executor: 'constant-arrival-rate',
      exec: 'status',
      rate: Math.max(1, Math.round(20 * rate)),
      timeUnit: '1s',
      duration,
      preAllocatedVUs: 5,
    },
    logon: {
      executor: 'constant-arrival-rate',
      exec: 'logon',
      rate: Math.max(1, Math.round(2 * rate)),
      timeUnit: '1s',
      duration,
      preAllocatedVUs: 8,
    },
  },
  thresholds: {
    checks: ['rate>0.999'],
    http_req_failed: ['rate<0.001'],
    'http_req_duration{name:status}': ['p(95)<50'],
    'http_req_duration{name:legacy_exchange}': ['p(95)<150'],
    'http_req_duration{name:legacy_refresh}': ['p(95)<150'],
  },
}

const on = (name, tag) => ({ headers: { Host: name }, redirects: 0, tags: { name: tag } })

export function status() {
  const reply = http.get(`${address}/OAuthStatus`, on(host, 'status'))
  check(reply, { 'status: enabled': (answer) => answer.json('enabled') === true })
}

function token(tag, fields) {
  const reply = http.post(`${address}/as/token.oauth2`, fields, on(authServerHost, tag))
  const good = check(reply, {
    [`${tag}: lengths`]: (answer) =>
      answer.status === 200 &&
      answer.json('access_token').length === 481 &&
      answer.json('refresh_token').length === 42,
  })
  return good ? reply.json() : fail(`${tag}: ${reply.status} ${reply.body}`)
}

export function logon() {
  const path = `/Logon?${query({ Action: 'StartOAuth', client_id: clientId, redirect_uri: redirectUri })}`
  const page = http.get(`${address}${path}`, on(host, 'logon'))
  page.submitForm({ formSelector: 'form', fields: person, params: on(host, 'sign-in') })
  const done = http.get(`${address}${path}`, on(host, 'logon'))
  const code = /[?&]code=([^&]{40})$/.exec(done.headers.Location || '')
  if (!check(code, { 'logon: a code of 40 characters': (found) => found !== null })) {
    fail(`logon: ${done.status} ${done.headers.Location}`)
  }
  const first = token('legacy_exchange', {
    grant_type: 'authorization_code',
    client_id: clientId,
    redirect_uri: redirectUri,
    code: code[1],
  })
  const next = token('legacy_refresh', { grant_type: 'refresh_token', refresh_token: first.refresh_token })
  const reply = http.get(`${api}/api/projects`, {
    headers: { Authorization: `Bearer ${next.access_token}` },
    tags: { name: 'api' },
  })
  check(reply, { 'api: let in': (answer) => answer.status === 200 })
}
