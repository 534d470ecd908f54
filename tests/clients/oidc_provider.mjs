// The issuer `oidc-provider`: access tokens by RFC 9068 for a resource (RFC 8707), ID tokens, and opaque refresh tokens.
// It prints `TOKENS` and a JSON object of tokens that its own endpoints issued, with the cookies of a browser whose person
// consented, and then serves.

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import Provider from 'oidc-provider'

const [port, audience] = process.argv.slice(2)
const issuer = `http://127.0.0.1:${port}`
const callback = 'https://app.example.com/callback'
const client = { client_id: 'web', client_secret: 'secret-of-the-test' }

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const key = { ...privateKey.export({ format: 'jwk' }), kid: 'of-oidc-provider', use: 'sig', alg: 'ES256' }

// One second of life for this resource alone.
const shortLived = `${audience}?short-lived`
const elsewhere = 'https://elsewhere.example.com'

// The least that a store can do, without an index of what belongs to a grant: the default one iterates over all of it.
const stored = new Map()
class Memory {
  constructor(kind) {
    this.kind = kind
  }
  upsert(id, payload) {
    stored.set(`${this.kind}:${id}`, payload)
    if (payload.uid) stored.set(`uid:${payload.uid}`, payload)
  }
  find(id) {
    return stored.get(`${this.kind}:${id}`)
  }
  findByUid(uid) {
    return stored.get(`uid:${uid}`)
  }
  consume(id) {
    this.find(id).consumed = Math.floor(Date.now() / 1000)
  }
  destroy(id) {
    stored.delete(`${this.kind}:${id}`)
  }
  revokeByGrantId() {}
}

const provider = new Provider(issuer, {
  adapter: Memory,
  jwks: { keys: [key] },
  clients: [
    {
      ...client,
      redirect_uris: [callback],
      grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
      response_types: ['code'],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  cookies: { keys: ['a key of the test'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    clientCredentials: { enabled: true },
    dPoP: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => ({
        audience: indicator.split('?')[0],
        scope: 'read',
        accessTokenFormat: 'jwt',
        accessTokenTTL: indicator === shortLived ? 1 : 600,
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
})
await new Promise((listening) => provider.listen(Number(port), '127.0.0.1', listening))

const form = (fields) => new URLSearchParams(fields)
const basic = `Basic ${Buffer.from(`${client.client_id}:${client.client_secret}`).toString('base64')}`

async function token(fields) {
  const reply = await fetch(`${issuer}/token`, { method: 'POST', headers: { authorization: basic }, body: form(fields) })
  const body = await reply.json()
  if (!reply.ok) throw new Error(JSON.stringify(body))
  return body
}

const ofClient = async (resource) =>
  (await token({ grant_type: 'client_credentials', scope: 'read', resource })).access_token

// The person at the browser, who signs in and consents at the pages that the provider has for development.
const cookies = new Map()
const cookie = (names = '') =>
  [...cookies].filter(([name]) => name.startsWith(names)).map(([name, value]) => `${name}=${value}`).join('; ')
async function signIn(resource) {
  const ask = async (url, body) => {
    const method = body ? 'POST' : 'GET'
    const headers = { cookie: cookie() }
    const reply = await fetch(new URL(url, issuer), { method, body, redirect: 'manual', headers })
    for (const header of reply.headers.getSetCookie()) {
      const [name, value] = header.split(';')[0].split('=')
      if (value) cookies.set(name, value)
      else cookies.delete(name)
    }
    return reply.headers.get('location')
  }
  const verifier = randomBytes(32).toString('base64url')
  const request = form({
    client_id: client.client_id,
    redirect_uri: callback,
    response_type: 'code',
    scope: 'openid offline_access read',
    prompt: 'consent',
    nonce: 'n-1',
    resource,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  let next = await ask(`/auth?${request}`)
  next = await ask(next, form({ prompt: 'login', login: 'ada', password: 'any' }))
  next = await ask(next)
  next = await ask(next, form({ prompt: 'consent' }))
  next = await ask(next)
  const code = new URL(next).searchParams.get('code')
  return token({ grant_type: 'authorization_code', code, redirect_uri: callback, code_verifier: verifier, resource })
}

const person = await signIn(audience)
const tokens = {
  access: await ofClient(audience),
  access_of_a_person: person.access_token,
  id: person.id_token,
  refresh: person.refresh_token,
  for_another_audience: await ofClient(elsewhere),
  short_lived: await ofClient(shortLived),
  cookie: cookie('_session'),
}
console.log(`TOKENS ${JSON.stringify(tokens)}`)
