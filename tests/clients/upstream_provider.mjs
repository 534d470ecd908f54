// The identity provider of a company: `oidc-provider`, at which people sign in with their name alone. It serves one confidential
// client, which must use PKCE.
//
//   node upstream_provider.mjs PORT OPTIONS
//
// OPTIONS is a JSON object: `redirect_uri` of the client, `logout_uri` (its back-channel logout), and `people`: for a name, members
// that replace those of `person` below.

import { generateKeyPairSync } from 'node:crypto'
import Provider from 'oidc-provider'

const [port, options] = process.argv.slice(2)
const { redirect_uri, logout_uri, people = {} } = JSON.parse(options)
const issuer = `http://127.0.0.1:${port}`

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const key = { ...privateKey.export({ format: 'jwk' }), kid: `key-of-${port}`, use: 'sig', alg: 'RS256' }

const person = (name) => ({
  sub: `sub-of-${name}`,
  name,
  email: `${name}@example.com`,
  email_verified: true,
  amr: ['pwd'],
  ...people[name],
})
// Everybody who has signed in, by `sub`.
const known = new Map()

const provider = new Provider(issuer, {
  jwks: { keys: [key] },
  clients: [
    {
      client_id: 'gatepass',
      client_secret: 'secret-of-the-test',
      redirect_uris: [redirect_uri],
      response_types: ['code'],
      grant_types: ['authorization_code'],
      require_auth_time: true,
      ...(logout_uri && { backchannel_logout_uri: logout_uri, backchannel_logout_session_required: true }),
    },
  ],
  claims: { openid: ['sub', 'amr'], email: ['email', 'email_verified'], profile: ['name'] },
  // Claims of `email` and `profile` are in the ID token, as at Entra, Keycloak and Okta.
  conformIdTokenClaims: false,
  // Browsers send the cookies of a host to all its ports.
  cookies: {
    keys: ['a key of the test'],
    names: { session: `session-${port}`, interaction: `interaction-${port}`, resume: `resume-${port}` },
  },
  features: {
    backchannelLogout: { enabled: true },
    devInteractions: { enabled: false },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (ctx, form) => {
        const button = '<button name="logout" value="yes">Sign out at the provider</button></form>'
        ctx.body = `<!DOCTYPE html><title>Sign out</title>${form.replace('</form>', button)}`
      },
    },
  },
  // The service is on this machine, to which oidc-provider sends nothing otherwise.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  findAccount: (_, sub) => known.has(sub) && { accountId: sub, claims: () => known.get(sub) },
  interactions: { url: (_, interaction) => `/sign-in/${interaction.uid}` },
  // Nobody is asked for consent.
  loadExistingGrant: async ({ oidc }) => {
    const grant = new provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
    grant.addOIDCScope('openid email profile')
    await grant.save()
    return grant
  },
  pkce: { required: () => true },
})

async function read(request) {
  let body = ''
  for await (const part of request) body += part
  return body
}

const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/sign-in/')) return next()
  const { params } = await provider.interactionDetails(ctx.req, ctx.res)
  if (ctx.method === 'GET') {
    ctx.body = `<!DOCTYPE html><title>Provider at ${port}</title><form method="post" action="${ctx.path}">
      <input name="login" value="${escaped(params.login_hint ?? '')}" autofocus><button>Sign in at the provider</button></form>`
    return
  }
  const form = new URLSearchParams(await read(ctx.req))
  const { amr, ...claims } = person(form.get('login'))
  known.set(claims.sub, claims)
  ctx.respond = false
  await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: claims.sub, amr } })
})
provider.on('backchannel.error', (_, error) => console.log('back-channel logout:', error))

await new Promise((listening) => provider.listen(Number(port), '127.0.0.1', listening))
console.log('SERVING')
