// Code and refresh with MSAL for Node.js, as an Installed Application. MSAL takes https issuers alone: this program's
// network client stands in for the TLS of a gateway.

import { CryptoProvider, ProtocolMode, PublicClientApplication } from '@azure/msal-node'
import { ask, lobby, visit } from './support.mjs'

const issuer = lobby.replace('http:', 'https:')

const send = (method) => async (url, options) => {
  const { headers, body } = options ?? {}
  const response = await fetch(url.replace(issuer, lobby), { method, headers, body })
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: JSON.parse((await response.text()).replaceAll(lobby, issuer)),
  }
}

const application = new PublicClientApplication({
  auth: {
    clientId: 'installed-demo',
    authority: issuer,
    knownAuthorities: [new URL(issuer).host],
  },
  system: {
    protocolMode: ProtocolMode.OIDC,
    networkClient: { sendGetRequestAsync: send('GET'), sendPostRequestAsync: send('POST') },
  },
})

const scopes = ['projects']
const redirectUri = 'http://127.0.0.1:8765/callback'
const { verifier, challenge } = await new CryptoProvider().generatePkceCodes()
const url = await application.getAuthCodeUrl({
  scopes,
  redirectUri,
  codeChallenge: challenge,
  codeChallengeMethod: 'S256',
})
const answer = await visit(new URL(url.replace(issuer, lobby)))
const code = answer.searchParams.get('code')
let tokens = await application.acquireTokenByCode({ code, scopes, redirectUri, codeVerifier: verifier })
await ask('TOKEN', 'pkce', tokens.accessToken)

const [{ secret: refreshToken }] = Object.values(JSON.parse(application.getTokenCache().serialize()).RefreshToken)
tokens = await application.acquireTokenByRefreshToken({ refreshToken, scopes })
await ask('TOKEN', 'refresh_token_public', tokens.accessToken)
process.exit(0)
