// The pair as k6 talks to it. Addresses and credentials come from the environment; the defaults are the demo's.
//
//   LOBBY_URL, API_URL                     the two listeners
//   WEB_CLIENT_ID, WEB_CLIENT_SECRET, WEB_REDIRECT_URI
//   INSTALLED_CLIENT_ID, INSTALLED_REDIRECT_URI
//   NON_INTERACTIVE_CLIENT_ID, NON_INTERACTIVE_CLIENT_SECRET, NON_INTERACTIVE_USER
//   PRIVATE_KEY (file), CERTIFICATE_ALIAS, IDENTITY_AUDIENCE
//   ASSERTIONS (file)                      assertions signed beforehand, one a line, for a k6 without RSA (before 1.0)
//   USER_BOUND_CLIENT_ID, USER_BOUND_CLIENT_SECRET, USER_ID, USER_SITE
//   USERNAME, PASSWORD                     a person with one linked account

import { check, fail } from 'k6'
import { randomBytes, sha256 } from 'k6/crypto'
import encoding from 'k6/encoding'
import exec from 'k6/execution'
import http from 'k6/http'

const setting = (name, otherwise) => __ENV[name] || otherwise

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
export const person = {
  username: setting('USERNAME', 'ada@example.com'),
  password: setting('PASSWORD', 'demo-password-of-ada'),
}
const account = {
  user_id: setting('USER_ID', '1879048403'),
  user_site: setting('USER_SITE', 'https://us1.example.com'),
}

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const assertions = __ENV.ASSERTIONS ? open(__ENV.ASSERTIONS).trim().split('\n') : null
const privateKey = assertions
  ? null
  : open(setting('PRIVATE_KEY', '../../demo/non-interactive-demo.key.pem'))

// A token request under the tag `name`, authenticated as the client does it; the answer, checked.
function token(of, name, fields) {
  const headers = {}
  const form = { grant_type: name, ...fields }
  if (of.secret) {
    headers.Authorization = `Basic ${encoding.b64encode(`${of.id}:${of.secret}`)}`
  } else {
    form.client_id = of.id
  }
  const answer = http.post(`${lobby}/auth/token`, form, { headers, tags: { name } })
  const good = check(answer, {
    [`${name}: tokens`]: (reply) => reply.status === 200 && Boolean(reply.json('access_token')),
  })
  if (!good) {
    fail(`${name}: ${answer.status} ${answer.body}`)
  }
  return answer.json()
}

export const query = (parameters) =>
  Object.entries(parameters)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&')

// Submits the sign-in form and goes where it leads. Within one iteration the session stays: no form then.
function submitSignIn(page) {
  const posted = page.submitForm({
    formSelector: 'form',
    fields: person,
    params: { redirects: 0, tags: { name: 'sign-in' } },
  })
  if (!check(posted, { 'sign-in: accepted': (reply) => reply.status === 303 })) {
    fail(`sign-in: ${posted.status}`)
  }
  return http.get(`${lobby}${posted.headers.Location}`, { redirects: 0, tags: { name: 'authorize' } })
}

// Signs in as the person and returns the code that her browser brings to the client.
function signIn(of, parameters) {
  const address = `${lobby}/auth/authorize?${query({
    response_type: 'code',
    client_id: of.id,
    redirect_uri: of.redirectUri,
    ...parameters,
  })}`
  const page = http.get(address, { redirects: 0, tags: { name: 'authorize' } })
  const done = page.status === 200 ? submitSignIn(page) : page
  const code = /[?&]code=([^&]+)/.exec(done.headers.Location || '')
  if (!check(code, { 'authorize: a code': (found) => found !== null })) {
    fail(`authorize: ${done.status} ${done.headers.Location}`)
  }
  return code[1]
}

// Web Server Application: authorization code.
export function webCode() {
  const code = signIn(web, { state: 'k6' })
  return token(web, 'authorization_code', { code, redirect_uri: web.redirectUri })
}

// Installed Application: authorization code with PKCE.
export function installedCode() {
  const verifier = encoding.b64encode(randomBytes(32), 'rawurl')
  const challenge = sha256(verifier, 'base64rawurl')
  const code = signIn(installed, { code_challenge: challenge, code_challenge_method: 'S256' })
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

const bytes = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0))

let signingKey

// A user assertion that nobody has used yet.
async function assertion() {
  if (assertions) {
    const number = exec.scenario.iterationInTest
    return assertions[number] || fail(`ASSERTIONS has no line ${number + 1}`)
  }
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
  token(nonInteractive, 'jwt_bearer', { grant_type: JWT_BEARER, assertion: await assertion() })

// User-Bound Integration: client credentials.
export const clientCredentials = () => token(userBound, 'client_credentials', account)

// Calls the API with an access token.
export function projects(accessToken) {
  const reply = http.get(`${api}/api/projects`, {
    headers: { Authorization: `Bearer ${accessToken}` },
    tags: { name: 'api' },
  })
  check(reply, { 'api: let in': (answer) => answer.status === 200 })
  return reply
}

// Calls the API without a token, which must be refused.
export function projectsWithout() {
  const reply = http.get(`${api}/api/projects`, {
    tags: { name: 'api without a token' },
    responseCallback: http.expectedStatuses(401),
  })
  check(reply, { 'api: refused without a token': (answer) => answer.status === 401 })
}
