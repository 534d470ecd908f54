// What the client programs in JavaScript share. The program that starts them plays the user with the browser: it reads
// `OPEN url` lines and answers each with the address at which the browser ended. Access tokens go out as
// `TOKEN name token` lines; the answer tells that the API was called.

import { createPrivateKey, createSign, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

export const [lobby, keyFile] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

export async function ask(...words) {
  console.log(words.join(' '))
  return (await lines.next()).value
}

export const visit = async (url) => new URL(await ask('OPEN', url.href))

export const secretOf = (id) => `demo-secret-of-${id}-not-for-real-use`

/** The private key of the demo's client that signs in place of a secret, with the `kid` of its registration. */
export async function keyOfKeyDemo() {
  const file = join(dirname(keyFile), 'key-demo.key.pem')
  const jwk = createPrivateKey(readFileSync(file)).export({ format: 'jwk' })
  return { key: await crypto.subtle.importKey('jwk', jwk, 'Ed25519', false, ['sign']), kid: 'demo-2026' }
}

/** A user assertion of the demo's Non-Interactive Integration for Ada. */
export function assertion() {
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
  const key = createPrivateKey(readFileSync(keyFile))
  return `${input}.${createSign('RSA-SHA256').update(input).sign(key, 'base64url')}`
}
