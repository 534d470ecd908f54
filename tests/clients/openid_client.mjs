// Every grant with openid-client, which stands on oauth4webapi. It finds the endpoints by discovery (RFC 8414) and
// checks `iss` of the authorization response (RFC 9207). The program that starts this one plays the user with the
// browser: it reads `OPEN url` lines and answers each with the address at which the browser ended. Access tokens go out as
// `TOKEN name token` lines; the answer tells that the API was called.

import { createPrivateKey, createSign, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import * as client from 'openid-client'

const [lobby, keyFile] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function ask(...words) {
  console.log(words.join(' '))
  return (await lines.next()).value
}

const visit = async (url) => new URL(await ask('OPEN', url.href))

const discover = (id, authentication) =>
  client.discovery(new URL(lobby), id, undefined, authentication, {
    algorithm: 'oauth2',
    execute: [client.allowInsecureRequests],
  })

async function codeFlow(config, redirectUri) {
  const verifier = client.randomPKCECodeVerifier()
  const state = client.randomState()
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    scope: 'projects',
  })
  return client.authorizationCodeGrant(config, await visit(url), {
    pkceCodeVerifier: verifier,
    expectedState: state,
  })
}

// Web Server Application, here with PKCE and its secret.
const web = await discover('web-demo', client.ClientSecretBasic('demo-secret-of-web-demo-not-for-real-use'))
let tokens = await codeFlow(web, 'https://app.example.com/callback')
await ask('TOKEN', 'authorization_code', tokens.access_token)
tokens = await client.refreshTokenGrant(web, tokens.refresh_token)
await ask('TOKEN', 'refresh_token', tokens.access_token)
const { active } = await client.tokenIntrospection(web, tokens.access_token)
if (!active) throw new Error('the token is not active')
await client.tokenRevocation(web, tokens.refresh_token)

// Installed Application.
const installed = await discover('installed-demo', client.None())
tokens = await codeFlow(installed, 'http://127.0.0.1:8765/callback')
await ask('TOKEN', 'pkce', tokens.access_token)
tokens = await client.refreshTokenGrant(installed, tokens.refresh_token)
await ask('TOKEN', 'refresh_token_public', tokens.access_token)

// Non-Interactive Integration.
const base64url = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = Math.floor(Date.now() / 1000)
const input = [
  base64url({ typ: 'JWT', alg: 'RS256', kid: 'demo-2020' }),
  base64url({
    iss: 'non-interactive-demo',
    sub: 'ada@example.com',
    aud: 'https://identity.example.com/',
    iat: now,
    exp: now + 300,
    jti: randomUUID(),
  }),
].join('.')
const signature = createSign('RSA-SHA256').update(input).sign(createPrivateKey(readFileSync(keyFile)), 'base64url')
const nonInteractive = await discover(
  'non-interactive-demo',
  client.ClientSecretBasic('demo-secret-of-non-interactive-demo-not-for-real-use'),
)
tokens = await client.genericGrantRequest(nonInteractive, 'urn:ietf:params:oauth:grant-type:jwt-bearer', {
  assertion: `${input}.${signature}`,
})
await ask('TOKEN', 'jwt_bearer', tokens.access_token)

// User-Bound Integration.
const userBound = await discover(
  'user-bound-demo',
  client.ClientSecretBasic('demo-secret-of-user-bound-demo-not-for-real-use'),
)
tokens = await client.clientCredentialsGrant(userBound, {
  user_id: '1879048403',
  user_site: 'https://us1.example.com',
})
await ask('TOKEN', 'client_credentials', tokens.access_token)
process.exit(0)
