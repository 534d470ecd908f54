// Every grant with oauth4webapi.

import * as oauth from 'oauth4webapi'
import { ask, assertion, keyOfKeyDemo, lobby, secretOf, visit } from './support.mjs'

// For plain http, as in this test.
const options = { [oauth.allowInsecureRequests]: true }
const issuer = new URL(lobby)
const discovery = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...options })
const server = await oauth.processDiscoveryResponse(issuer, discovery)

function confidential(id) {
  const secret = secretOf(id)
  return [{ client_id: id }, oauth.ClientSecretBasic(secret)]
}

async function codeFlow(client, authentication, redirectUri, isPushed = false) {
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(server.authorization_endpoint)
  const request = new URLSearchParams({
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: redirectUri,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    scope: 'projects',
  })
  url.search = isPushed ? await push(client, authentication, request) : request
  const parameters = oauth.validateAuthResponse(server, client, await visit(url), state)
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    authentication,
    parameters,
    redirectUri,
    verifier,
    options,
  )
  return oauth.processAuthorizationCodeResponse(server, client, response)
}

async function push(client, authentication, request) {
  const response = await oauth.pushedAuthorizationRequest(server, client, authentication, request, options)
  const { request_uri } = await oauth.processPushedAuthorizationResponse(server, client, response)
  return new URLSearchParams({ client_id: client.client_id, request_uri })
}

async function refresh(client, authentication, tokens) {
  const token = tokens.refresh_token
  const response = await oauth.refreshTokenGrantRequest(server, client, authentication, token, options)
  return oauth.processRefreshTokenResponse(server, client, response)
}

// Web Server Application, here with PKCE and its secret.
const web = confidential('web-demo')
let tokens = await codeFlow(...web, 'https://app.example.com/callback')
await ask('TOKEN', 'authorization_code', tokens.access_token)
tokens = await refresh(...web, tokens)
await ask('TOKEN', 'refresh_token', tokens.access_token)
await oauth.processRevocationResponse(await oauth.revocationRequest(server, ...web, tokens.refresh_token, options))

// Installed Application.
const installed = [{ client_id: 'installed-demo' }, oauth.None()]
tokens = await codeFlow(...installed, 'http://127.0.0.1:8765/callback')
await ask('TOKEN', 'pkce', tokens.access_token)
tokens = await refresh(...installed, tokens)
await ask('TOKEN', 'refresh_token_public', tokens.access_token)

// Non-Interactive Integration.
const bearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const [nonInteractive, authentication] = confidential('non-interactive-demo')
const response = await oauth.genericTokenEndpointRequest(
  server,
  nonInteractive,
  authentication,
  bearer,
  { assertion: assertion() },
  options,
)
tokens = await oauth.processGenericTokenEndpointResponse(server, nonInteractive, response)
await ask('TOKEN', 'jwt_bearer', tokens.access_token)

// User-Bound Integration.
const userBound = confidential('user-bound-demo')
const account = { user_id: '1879048403', user_site: 'https://us1.example.com' }
tokens = await oauth.processClientCredentialsResponse(
  server,
  userBound[0],
  await oauth.clientCredentialsGrantRequest(server, ...userBound, account, options),
)
await ask('TOKEN', 'client_credentials', tokens.access_token)

// A client with a key in place of a secret.
const { key, kid } = await keyOfKeyDemo()
const keyed = [{ client_id: 'key-demo' }, oauth.PrivateKeyJwt({ key, kid })]
tokens = await oauth.processClientCredentialsResponse(
  server,
  keyed[0],
  await oauth.clientCredentialsGrantRequest(server, ...keyed, {}, options),
)
await ask('TOKEN', 'private_key_jwt', tokens.access_token)
await oauth.processRevocationResponse(await oauth.revocationRequest(server, ...keyed, tokens.access_token, options))

// Pushed authorization requests.
tokens = await codeFlow(...web, 'https://app.example.com/callback', true)
await ask('TOKEN', 'pushed', tokens.access_token)
tokens = await codeFlow(...installed, 'http://127.0.0.1:8765/callback', true)
await ask('TOKEN', 'pushed_public', tokens.access_token)

// Tokens that are bound to a key. The first request of a client without the service's nonce is accepted by its time.
for (const algorithm of ['ES256', 'Ed25519', 'RS256']) {
  const keyPair = await oauth.generateKeyPair(algorithm)
  const bound = { ...options, DPoP: oauth.DPoP(userBound[0], keyPair) }
  for (let time = 0; time < 2; time++) {
    const response = await oauth.clientCredentialsGrantRequest(server, ...userBound, account, bound)
    tokens = await oauth.processClientCredentialsResponse(server, userBound[0], response)
    if (tokens.token_type !== 'dpop') throw new Error(tokens.token_type)
  }
  await ask('BOUND', algorithm, tokens.access_token)
}
process.exit(0)
