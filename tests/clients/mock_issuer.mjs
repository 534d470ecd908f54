// The issuer `oauth2-mock-server`: its access tokens and ID tokens have the same `typ`, JWT, and the same key. It prints
// `TOKENS` and a JSON object of tokens that its own endpoints issued, and then serves its metadata and keys.

import { OAuth2Server } from 'oauth2-mock-server'

const [port, audience] = process.argv.slice(2)
const server = new OAuth2Server()
await server.issuer.keys.generate('RS256', { kid: 'of-oauth2-mock-server' })
await server.start(Number(port), '127.0.0.1')
server.issuer.url = `http://127.0.0.1:${port}`

async function token(fields) {
  const reply = await fetch(`${server.issuer.url}/token`, {
    method: 'POST',
    body: new URLSearchParams({ client_id: audience, ...fields }),
  })
  const body = await reply.json()
  if (!reply.ok) throw new Error(JSON.stringify(body))
  return body
}

const ofClient = async (aud) => (await token({ grant_type: 'client_credentials', scope: 'read', aud })).access_token

// A client with the name of the audience: its ID token has the right audience too.
const person = await token({ grant_type: 'authorization_code', scope: 'openid', code: 'any', redirect_uri: 'https://app.example.com' })
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
console.log(`TOKENS ${JSON.stringify(tokens)}`)
