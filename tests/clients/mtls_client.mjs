// Mutual TLS (RFC 8705) with openid-client: a certificate in place of a secret, and tokens that are bound to it. Node's own
// `fetch` takes no certificate, so the program gives the library one that does.

import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import * as client from 'openid-client'
import { ask, lobby, visit } from './support.mjs'

const { API, SERVER, CERTIFICATE } = process.env
const identity = readFileSync(CERTIFICATE)
const tls = { ca: readFileSync(SERVER), cert: identity, key: identity }

function withCertificate(url, { method, headers, body, ...options }) {
  if (!url.startsWith('https:')) return fetch(url, { method, headers, body, ...options })
  return new Promise((resolve, reject) => {
    const call = request(url, { method, headers: Object.fromEntries(new Headers(headers)), ...tls }, (answer) => {
      const parts = []
      answer.on('data', (part) => parts.push(part))
      answer.on('end', () => {
        resolve(new Response(Buffer.concat(parts), { status: answer.statusCode, headers: answer.headers }))
      })
    })
    call.on('error', reject)
    call.end(body?.toString())
  })
}

const discover = (id, authentication) =>
  client.discovery(new URL(lobby), id, { use_mtls_endpoint_aliases: true }, authentication, {
    algorithm: 'oauth2',
    execute: [client.allowInsecureRequests],
    [client.customFetch]: withCertificate,
  })

async function use(config, grant, tokens) {
  const answer = await client.fetchProtectedResource(config, tokens.access_token, new URL(API), 'GET')
  if (answer.status !== 200) throw new Error(`${grant}: ${answer.status}`)
  await ask('BOUND', grant, tokens.access_token)
}

// A User-Bound Integration without a secret.
const keyed = await discover('tls-demo', client.TlsClientAuth())
let tokens = await client.clientCredentialsGrant(keyed)
await use(keyed, 'client_credentials', tokens)
const { active } = await client.tokenIntrospection(keyed, tokens.access_token)
if (!active) throw new Error('the token is not active')
await client.tokenRevocation(keyed, tokens.access_token)

// An Installed Application, whose refresh tokens are bound too.
const installed = await discover('installed-demo', client.None())
const verifier = client.randomPKCECodeVerifier()
const state = client.randomState()
const url = await client.buildAuthorizationUrlWithPAR(installed, {
  redirect_uri: 'http://127.0.0.1:8765/callback',
  code_challenge: await client.calculatePKCECodeChallenge(verifier),
  code_challenge_method: 'S256',
  state,
  scope: 'projects',
})
const checks = { pkceCodeVerifier: verifier, expectedState: state }
tokens = await client.authorizationCodeGrant(installed, await visit(url), checks)
await use(installed, 'pkce', tokens)
tokens = await client.refreshTokenGrant(installed, tokens.refresh_token)
await use(installed, 'refresh_token_public', tokens)
process.exit(0)
