// Requests to the pair, for k6 1.1 or newer. Addresses and credentials come from the environment. The defaults are
// those of the demo.
//
//   LOBBY_URL, API_URL                     the two listeners
//   WEB_CLIENT_ID, WEB_CLIENT_SECRET, WEB_REDIRECT_URI
//   INSTALLED_CLIENT_ID, INSTALLED_REDIRECT_URI
//   NON_INTERACTIVE_CLIENT_ID, NON_INTERACTIVE_CLIENT_SECRET, NON_INTERACTIVE_USER
//   PRIVATE_KEY (file, PKCS#8 PEM), CERTIFICATE_ALIAS, IDENTITY_AUDIENCE
//   USER_BOUND_CLIENT_ID, USER_BOUND_CLIENT_SECRET, USER_ID, USER_SITE
//   PEOPLE (file)                          people who sign in, in turn: one `username,password` per line. Users with
//                                          several linked accounts take the first. No users with a second factor.
//   USERNAME, PASSWORD                     one person, in place of PEOPLE
//   P95                                    highest 95th percentile of each request's duration in milliseconds, in
//                                          place of each script's limits; `off` for none
//   P95_API, P95_REFRESH_TOKEN, ...        the same for one request, by its name in capitals

import { check } from 'k6'
import { randomBytes, sha256 } from 'k6/crypto'
import encoding from 'k6/encoding'
import exec from 'k6/execution'
import http from 'k6/http'

// k6 does not tell scripts its version. 1.1 is the first one with `test.fail`, and RSA keys came with 1.0.
if (typeof exec.test.fail !== 'function' || typeof crypto === 'undefined') {
  throw new Error('This k6 is too old: these scripts need k6 1.1 or newer')
}

export const setting = (name, otherwise) => __ENV[name] || otherwise

export const lobby = setting('LOBBY_URL', 'http://127.0.0.1:8081')
export const api = setting('API_URL', 'http://127.0.0.1:8080')

const secretOf = (name) => `demo-secret-of-${name}-not-for-real-use`
const client = (prefix, name) => ({
  id: setting(`${prefix}_CLIENT_ID`, name),
  secret: setting(`${prefix}_CLIENT_SECRET`, secretOf(name)),
  redirectUri: setting(`${prefix}_REDIRECT_URI`, 'http://127.0.0.1:8090/callback'),
})

const web = client('WEB', 'web-demo')
const installed = { ...client('INSTALLED', 'installed-demo'), secret: null }
const nonInteractive = client('NON_INTERACTIVE', 'non-interactive-demo')
const userBound = client('USER_BOUND', 'user-bound-demo')
const account = {
  user_id: setting('USER_ID', '1879048403'),
  user_site: setting('USER_SITE', 'https://us1.example.com'),
}

// The demo's Ada has one linked account, Grace has several.
const DEMO_PEOPLE = 'ada@example.com,demo-password-of-ada\ngrace@example.com,demo-password-of-grace'
const areOfTheDemo = !__ENV.PEOPLE && !__ENV.USERNAME

function readPeople() {
  if (__ENV.USERNAME) {
    return [{ username: __ENV.USERNAME, password: __ENV.PASSWORD || '' }]
  }
  const lines = (__ENV.PEOPLE ? open(__ENV.PEOPLE) : DEMO_PEOPLE).split(/\r?\n/).filter(Boolean)
  return lines.map((line, number) => {
    const comma = line.indexOf(',')
    if (comma < 1) {
      throw new Error(`PEOPLE, line ${number + 1}: expected username,password`)
    }
    return { username: line.slice(0, comma), password: line.slice(comma + 1) }
  })
}

export const people = readPeople()
if (people.length === 0) {
  throw new Error('PEOPLE names nobody')
}

// The names of the requests of a sign-in.
export const SIGN_IN = ['authorize', 'sign-in', ...(areOfTheDemo ? ['select-account'] : [])]

function limit(name, milliseconds) {
  const own = `P95_${name.toUpperCase().replace(/-/g, '_')}`
  const text = __ENV[own] || __ENV.P95 || String(milliseconds)
  if (text === 'off') {
    return []
  }
  if (!/^\d+$/.test(text)) {
    throw new Error(`${__ENV[own] ? own : 'P95'}=${text}: expected a number of milliseconds, or off`)
  }
  return [`p(95)<${text}`]
}

// What a run under load consists of. RATE scales it (1), DURATION is its duration.
export function load(lasts) {
  const rate = Number(setting('RATE', 1))
  const duration = setting('DURATION', lasts)
  // Requests per second, and virtual users for them.
  const scenario = (exec, perSecond, vus) => ({
    executor: 'constant-arrival-rate',
    exec,
    rate: Math.max(1, Math.round(perSecond * rate)),
    timeUnit: '1s',
    duration,
    preAllocatedVUs: vus,
    maxVUs: vus * 10,
  })
  return { rate, duration, scenario }
}

// Thresholds for each of the requests `names`. At least one request of each name must be made: k6 passes a limit on
// requests that never happened. `limits` are the highest 95th percentiles of their durations in milliseconds, by name.
export function thresholds(names, limits = {}) {
  const all = {}
  for (const name of names) {
    all[`http_reqs{name:${name}}`] = ['count>0']
  }
  for (const [name, milliseconds] of Object.entries(limits)) {
    const expressions = limit(name, milliseconds)
    if (expressions.length > 0) {
      all[`http_req_duration{name:${name}}`] = expressions
    }
  }
  return all
}

// A check has failed: the iteration ends.
class Stop extends Error {}

// The function of an iteration. An error other than a failed check fails the run, with exit code 110. k6 itself would
// log the error and count the iteration as done.
export const iteration = (steps) => async (data) => {
  try {
    await steps(data)
  } catch (error) {
    if (error instanceof Stop) {
      console.error(error.message)
      return
    }
    exec.test.fail(String(error))
    throw error
  }
}

// Checks `answer` under the name of its request. A failed check ends the iteration.
export function must(answer, name, expected, holds) {
  if (!check(answer, { [`${name}: ${expected}`]: holds })) {
    const why = answer.status >= 400 ? String(answer.body).slice(0, 300) : answer.headers.Location || ''
    throw new Stop(`${name}: expected ${expected}, got ${answer.status} ${answer.error || why}`)
  }
  return answer
}

// The code in the redirect that ends a sign-in.
export function codeIn(answer, name) {
  const code = () => /[?&]code=([^&]+)/.exec(answer.headers.Location || '')
  must(answer, name, 'a code', () => code() !== null)
  return code()[1]
}

export const query = (parameters) =>
  Object.entries(parameters)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&')

// Sends a token request under the tag `name` with the client's authentication. Returns the checked answer.
function token(of, name, fields) {
  const headers = {}
  const form = { grant_type: name, ...fields }
  if (of.secret) {
    headers.Authorization = `Basic ${encoding.b64encode(`${of.id}:${of.secret}`)}`
  } else {
    form.client_id = of.id
  }
  const answer = http.post(`${lobby}/auth/token`, form, { headers, tags: { name } })
  must(answer, name, 'tokens', (reply) => reply.status === 200 && Boolean(reply.json('access_token')))
  return answer.json()
}

// The users in turn, so that the load is that of many users.
export const nextPerson = () => people[exec.scenario.iterationInTest % people.length]

// Submits the sign-in form and follows the redirect.
function submitSignIn(page, person) {
  const posted = page.submitForm({
    formSelector: 'form',
    fields: person,
    params: { redirects: 0, tags: { name: 'sign-in' } },
  })
  must(posted, 'sign-in', 'a redirect', (reply) => reply.status === 303)
  return http.get(`${lobby}${posted.headers.Location}`, { redirects: 0, tags: { name: 'authorize' } })
}

// Presses the button of the first account.
function selectAccount(page) {
  const first = page.html('button[name=account]').first().attr('value')
  return page.submitForm({
    formSelector: 'form',
    fields: { account: first },
    params: { redirects: 0, tags: { name: 'select-account' } },
  })
}

// Signs in as the person and returns the code that the browser brings to the client. The session lasts for one
// iteration: further requests show no form.
function signIn(person, of, parameters) {
  const address = `${lobby}/auth/authorize?${query({
    response_type: 'code',
    client_id: of.id,
    redirect_uri: of.redirectUri,
    ...parameters,
  })}`
  let page = http.get(address, { redirects: 0, tags: { name: 'authorize' } })
  if (page.status === 200 && page.html('input[name=password]').size() > 0) {
    page = submitSignIn(page, person)
  }
  if (page.status === 200 && page.html('button[name=account]').size() > 0) {
    page = selectAccount(page)
  }
  if (page.status === 200 && page.html('form[action="/auth/continue"]').size() > 0) {
    // The session began with another application: the person confirms this one.
    page = page.submitForm({
      formSelector: 'form',
      params: { redirects: 0, tags: { name: 'continue' } },
    })
  }
  return codeIn(page, 'authorize')
}

// Web Server Application: authorization code.
export function webCode(person = nextPerson()) {
  const code = signIn(person, web, { state: 'k6' })
  return token(web, 'authorization_code', { code, redirect_uri: web.redirectUri })
}

// Installed Application: authorization code with PKCE.
export function installedCode(person = nextPerson()) {
  const verifier = encoding.b64encode(randomBytes(32), 'rawurl')
  const challenge = sha256(verifier, 'base64rawurl')
  const code = signIn(person, installed, { code_challenge: challenge, code_challenge_method: 'S256' })
  return token(installed, 'authorization_code', {
    code,
    redirect_uri: installed.redirectUri,
    code_verifier: verifier,
  })
}

// Refresh of a web server application.
export const webRefresh = (refreshToken) => token(web, 'refresh_token', { refresh_token: refreshToken })

// Refresh of an installed application.
export const installedRefresh = (refreshToken) =>
  token(installed, 'refresh_token', { refresh_token: refreshToken })

const privateKey = open(setting('PRIVATE_KEY', '../../demo/non-interactive-demo.key.pem'))

// k6's engine has no TextEncoder, and Uint8Array.from takes no string.
const bytes = (text) => Uint8Array.from([...text], (character) => character.charCodeAt(0))

let signingKey

// A new user assertion.
async function assertion() {
  const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
  if (!signingKey) {
    const base64 = privateKey.replace(/-----[A-Z ]+-----|\s/g, '')
    const der = encoding.b64decode(base64, 'std')
    signingKey = await crypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign'])
  }
  const now = Math.floor(Date.now() / 1000)
  const part = (value) => encoding.b64encode(JSON.stringify(value), 'rawurl')
  const input = [
    part({ typ: 'JWT', alg: 'RS256', kid: setting('CERTIFICATE_ALIAS', 'demo-2020') }),
    part({
      iss: nonInteractive.id,
      sub: setting('NON_INTERACTIVE_USER', 'ada@example.com'),
      aud: setting('IDENTITY_AUDIENCE', 'https://identity.example.com/'),
      iat: now,
      exp: now + 300,
      jti: encoding.b64encode(randomBytes(16), 'rawurl'),
    }),
  ].join('.')
  const signature = await crypto.subtle.sign(algorithm, signingKey, bytes(input))
  return `${input}.${encoding.b64encode(signature, 'rawurl')}`
}

// Non-Interactive Integration: JWT bearer.
export const jwtBearer = async () =>
  token(nonInteractive, 'jwt_bearer', {
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: await assertion(),
  })

// User-Bound Integration: client credentials.
export const clientCredentials = () => token(userBound, 'client_credentials', account)

// Calls the API with an access token.
export function projects(accessToken) {
  const reply = http.get(`${api}/api/projects`, {
    headers: { Authorization: `Bearer ${accessToken}` },
    tags: { name: 'api' },
  })
  return must(reply, 'api', 'to be let in', (answer) => answer.status === 200)
}

// Calls the API without a token, which must be refused.
export function projectsWithout() {
  const reply = http.get(`${api}/api/projects`, {
    tags: { name: 'api-without-token' },
    responseCallback: http.expectedStatuses(401),
  })
  return must(reply, 'api-without-token', 'a refusal', (answer) => answer.status === 401)
}
