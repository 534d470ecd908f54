// Every grant with openid-client, which stands on oauth4webapi. It finds the endpoints by discovery (RFC 8414) and
// checks `iss` of the authorization response (RFC 9207).

import * as client from 'openid-client'
import { ask, assertion, keyOfKeyDemo, lobby, secretOf, visit } from './support.mjs'

const discover = (id, authentication) =>
  client.discovery(new URL(lobby), id, undefined, authentication, {
    algorithm: 'oauth2',
    execute: [client.allowInsecureRequests],
  })

const confidential = (id) => {
  const secret = secretOf(id)
  return discover(id, client.ClientSecretBasic(secret))
}

async function codeFlow(config, redirectUri, { isPushed = false, parameters: more = {}, options = {} } = {}) {
  const verifier = client.randomPKCECodeVerifier()
  const state = client.randomState()
  const parameters = {
    redirect_uri: redirectUri,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    scope: 'projects',
    ...more,
  }
  const url = isPushed
    ? await client.buildAuthorizationUrlWithPAR(config, parameters)
    : client.buildAuthorizationUrl(config, parameters)
  const checks = { pkceCodeVerifier: verifier, expectedState: state }
  return client.authorizationCodeGrant(config, await visit(url), checks, {}, options)
}

// Web Server Application, here with PKCE and its secret.
const web = await confidential('web-demo')
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
const nonInteractive = await confidential('non-interactive-demo')
tokens = await client.genericGrantRequest(nonInteractive, 'urn:ietf:params:oauth:grant-type:jwt-bearer', {
  assertion: assertion(),
})
await ask('TOKEN', 'jwt_bearer', tokens.access_token)

// User-Bound Integration.
const userBound = await confidential('user-bound-demo')
tokens = await client.clientCredentialsGrant(userBound, {
  user_id: '1879048403',
  user_site: 'https://us1.example.com',
})
await ask('TOKEN', 'client_credentials', tokens.access_token)

// A client with a key in place of a secret.
const { key, kid } = await keyOfKeyDemo()
const keyed = await discover('key-demo', client.PrivateKeyJwt({ key, kid }))
tokens = await client.clientCredentialsGrant(keyed)
await ask('TOKEN', 'private_key_jwt', tokens.access_token)
await client.tokenRevocation(keyed, tokens.access_token)

// Pushed authorization requests.
tokens = await codeFlow(web, 'https://app.example.com/callback', { isPushed: true })
await ask('TOKEN', 'pushed', tokens.access_token)
tokens = await codeFlow(installed, 'http://127.0.0.1:8765/callback', { isPushed: true })
await ask('TOKEN', 'pushed_public', tokens.access_token)

// Tokens that are bound to a key.
const DPoP = client.getDPoPHandle(installed, await client.randomDPoPKeyPair('ES256'))
const dpop_jkt = await DPoP.calculateThumbprint()
tokens = await codeFlow(installed, 'http://127.0.0.1:8765/callback', {
  parameters: { dpop_jkt },
  options: { DPoP },
})
await ask('BOUND', 'pkce', tokens.access_token)
tokens = await client.refreshTokenGrant(installed, tokens.refresh_token, {}, { DPoP })
await ask('BOUND', 'refresh_token_public', tokens.access_token)
let refused
await client.refreshTokenGrant(installed, tokens.refresh_token).catch((error) => (refused = error.error))
if (refused !== 'invalid_grant') throw new Error(`refreshed without a proof: ${refused}`)
process.exit(0)
