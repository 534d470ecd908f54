// Tokens that are bound to a key, with the package dpop, which makes proofs and nothing else.

import { calculateThumbprint, generateKeyPair, generateProof } from 'dpop'
import { ask, lobby, secretOf } from './support.mjs'

const url = `${lobby}/auth/token`
const basic = Buffer.from(`user-bound-demo:${secretOf('user-bound-demo')}`).toString('base64')
const form = {
  grant_type: 'client_credentials',
  user_id: '1879048403',
  user_site: 'https://us1.example.com',
}

function request(proof) {
  const headers = { authorization: `Basic ${basic}`, dpop: proof }
  return fetch(url, { method: 'POST', headers, body: new URLSearchParams(form) })
}

for (const algorithm of ['ES256', 'Ed25519', 'RS256']) {
  const keyPair = await generateKeyPair(algorithm)
  const first = await request(await generateProof(keyPair, url, 'POST'))
  const nonce = first.headers.get('dpop-nonce')
  const proof = await generateProof(keyPair, url, 'POST', nonce)
  const response = await request(proof)
  const tokens = await response.json()
  if (!first.ok || tokens.token_type !== 'DPoP') throw new Error(JSON.stringify(tokens))
  const { cnf } = JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url'))
  if (cnf.jkt !== (await calculateThumbprint(keyPair.publicKey))) throw new Error(cnf.jkt)
  const { error } = await (await request(proof)).json()
  if (error !== 'invalid_dpop_proof') throw new Error(`replayed: ${error}`)
  await ask('BOUND', algorithm, tokens.access_token)
}
process.exit(0)
