// The legacy flow: `k6 run tests/k6/legacy.js`, with k6 1.1 or newer. RATE scales the load (1), DURATION is its
// duration (30s).
//
//   LEGACY_URL                             address of the hosts
//   LEGACY_HOST, LEGACY_AUTH_SERVER_HOST   their names
//   LEGACY_CLIENT_ID, LEGACY_REDIRECT_URI  a client without a secret
//   API_URL, P95, ...                      as in pair.js; the first of PEOPLE signs in and has one linked account

import http from 'k6/http'
import { codeIn, iteration, load, must, people, projects, query, setting, thresholds } from './pair.js'

const address = setting('LEGACY_URL', 'http://127.0.0.1:8083')
const host = setting('LEGACY_HOST', 'us1.legacy.example')
const authServerHost = setting('LEGACY_AUTH_SERVER_HOST', 'sso-us1.legacy.example')
const clientId = setting('LEGACY_CLIENT_ID', 'legacy-demo')
const redirectUri = setting('LEGACY_REDIRECT_URI', 'http://localhost:8090/callback')

const { scenario } = load('30s')

// Highest 95th percentiles of durations, in milliseconds.
const limits = { api: 50, legacy_exchange: 150, legacy_refresh: 150, status: 50 }

export const options = {
  scenarios: {
    status: scenario('status', 20, 5),
    logon: scenario('logon', 2, 8),
  },
  thresholds: {
    checks: ['rate>0.999'],
    http_req_failed: ['rate<0.001'],
    ...thresholds(['logon', 'sign-in', ...Object.keys(limits)], limits),
  },
}

const on = (name, tag) => ({ headers: { Host: name }, redirects: 0, tags: { name: tag } })

export const status = iteration(() => {
  const reply = http.get(`${address}/OAuthStatus`, on(host, 'status'))
  must(reply, 'status', 'enabled', (answer) => answer.status === 200 && answer.json('enabled') === true)
})

function token(tag, fields) {
  const reply = http.post(`${address}/as/token.oauth2`, fields, on(authServerHost, tag))
  must(
    reply,
    tag,
    'tokens of 481 and 42 characters',
    (answer) =>
      answer.status === 200 &&
      answer.json('access_token').length === 481 &&
      answer.json('refresh_token').length === 42,
  )
  return reply.json()
}

export const logon = iteration(() => {
  const path = `/Logon?${query({ Action: 'StartOAuth', client_id: clientId, redirect_uri: redirectUri })}`
  const page = http.get(`${address}${path}`, on(host, 'logon'))
  must(page, 'logon', 'a page', (answer) => answer.status === 200)
  const posted = page.submitForm({ formSelector: 'form', fields: people[0], params: on(host, 'sign-in') })
  must(posted, 'sign-in', 'a redirect', (answer) => answer.status === 303)
  const code = codeIn(http.get(`${address}${path}`, on(host, 'logon')), 'logon')
  const first = token('legacy_exchange', {
    grant_type: 'authorization_code',
    client_id: clientId,
    redirect_uri: redirectUri,
    code,
  })
  const next = token('legacy_refresh', { grant_type: 'refresh_token', refresh_token: first.refresh_token })
  projects(next.access_token)
})
