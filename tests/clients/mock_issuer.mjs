// The issuer `oauth2-mock-server`: its access tokens and ID tokens have the same `typ`, JWT, and the same key. It prints
// `TOKENS` and a JSON object of tokens that its own endpoints issued, and then serves its metadata and keys.
//
// With names of algorithms as further arguments it has a key for each, whose `kid` is the algorithm, and prints tokens that
// its library (jose) signed with them.

import { createPublicKey } from 'node:crypto'
import { SignJWT, UnsecuredJWT, importJWK } from 'jose'
import { OAuth2Server } from 'oauth2-mock-server'

const [port, audience, ...algorithms] = process.argv.slice(2)
const server = new OAuth2Server()
if (algorithms.length === 0) await server.issuer.keys.generate('RS256', { kid: 'of-oauth2-mock-server' })
for (const alg of algorithms) await server.issuer.keys.generate(alg, { kid: alg })
await server.start(Number(port), '127.0.0.1')
server.issuer.url = `http://127.0.0.1:${port}`

if (algorithms.length > 0) {
  const { keys } = server.issuer
  const claims = { aud: audience, scope: 'read' }
  const good = {}
  for (const kid of algorithms) {
    const scopesOrTransform = (_, payload) => Object.assign(payload, claims)
    good[kid] = await server.issuer.buildToken({ kid, expiresIn: 600, scopesOrTransform })
  }
  const signed = (builder) => builder.setIssuer(server.issuer.url).setIssuedAt().setExpirationTime('10m')
  const header = (alg) => ({ typ: 'JWT', alg, kid: 'RS256' })
  const key = keys.get('RS256')
  const secret = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const unsecured = signed(new UnsecuredJWT(claims)).encode().split('.')[1]
  const none = Buffer.from(JSON.stringify(header('none'))).toString('base64url')
  const of_rs256_key = {
    HS256: await signed(new SignJWT(claims)).setProtectedHeader(header('HS256')).sign(new TextEncoder().encode(secret)),
    none: `${none}.${unsecured}.`,
  }
  for (const alg of ['RS384', 'RS512', 'PS256']) {
    const other = await importJWK({ ...key, alg }, alg)
    of_rs256_key[alg] = await signed(new SignJWT(claims)).setProtectedHeader(header(alg)).sign(other)
  }
  console.log(`TOKENS ${JSON.stringify({ good, of_rs256_key })}`)
} else {
  console.log(`TOKENS ${JSON.stringify(await byEndpoints())}`)
}

async function token(fields) {
  const reply = await fetch(`${server.issuer.url}/token`, {
    method: 'POST',
    body: new URLSearchParams({ client_id: audience, ...fields }),
  })
  const body = await reply.json()
  if (!reply.ok) throw new Error(JSON.stringify(body))
  return body
}

async function ofClient(aud) {
  return (await token({ grant_type: 'client_credentials', scope: 'read', aud })).access_token
}

async function byEndpoints() {
  // A client with the name of the audience: its ID token has the right audience too.
  const code = { code: 'any', redirect_uri: 'https://app.example.com' }
  const person = await token({ grant_type: 'authorization_code', scope: 'openid', ...code })
  const tokens = {
    access: await ofClient(audience),
    id: person.id_token,
    refresh: person.refresh_token,
    for_another_audience: await ofClient('https://elsewhere.example.com'),
  }
  server.service.once('beforeTokenSigning', ({ payload }) => {
    payload.exp = Math.floor(Date.now() / 1000) + 1
  })
  tokens.short_lived = await ofClient(audience)
  // With the claims of the access tokens in Keycloak's documentation.
  server.service.once('beforeTokenSigning', ({ payload }) => {
    Object.assign(payload, { typ: 'Bearer', azp: 'web', sub: 'ada', jti: '1' })
  })
  tokens.of_keycloak = await ofClient(audience)
  return tokens
}
