// A web server whose visitors sign in, and which calls the API for them.

import { randomUUID } from 'node:crypto'
import express from 'express'
import * as client from 'openid-client'

const issuer = new URL('http://127.0.0.1:8081')
const api = 'http://127.0.0.1:8080/api/projects'
const origin = 'http://127.0.0.1:3000'
const redirect_uri = `${origin}/callback`

const config = await client.discovery(issuer, 'node-app', undefined, client.ClientSecretBasic(process.env.CLIENT_SECRET), {
  algorithm: 'oauth2',
  // Without https, as the demo.
  execute: issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [],
})

// Sessions by the id in the visitor's cookie. In memory: a real server has a store, and removes old sessions.
const sessions = new Map()

function open(response, session) {
  const id = randomUUID()
  sessions.set(id, session)
  response.cookie('session', id, { httpOnly: true, sameSite: 'lax', secure: origin.startsWith('https:') })
}

const sessionId = (request) => /(?:^|; )session=([^;]+)/.exec(request.get('cookie') ?? '')?.[1]

async function accessToken(session) {
  if (Date.now() > session.expires) Object.assign(session, keep(await client.refreshTokenGrant(config, session.refresh)))
  return session.access
}

const keep = (tokens) => ({
  access: tokens.access_token,
  refresh: tokens.refresh_token,
  expires: Date.now() + (tokens.expires_in - 30) * 1000,
})

const app = express()

app.get('/', async (request, response) => {
  const session = sessions.get(sessionId(request))
  if (session?.access) {
    const answer = await fetch(api, { headers: { authorization: `Bearer ${await accessToken(session)}` } })
    return response.status(answer.status).type('json').send(await answer.text())
  }
  const verifier = client.randomPKCECodeVerifier()
  const state = client.randomState()
  open(response, { verifier, state })
  const parameters = {
    redirect_uri,
    state,
    scope: 'projects',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }
  response.redirect(client.buildAuthorizationUrl(config, parameters).href)
})

app.get('/callback', async (request, response) => {
  const id = sessionId(request)
  const { verifier, state } = sessions.get(id) ?? {}
  if (!state) return response.status(400).send('This sign-in did not begin here')
  sessions.delete(id)
  const checks = { pkceCodeVerifier: verifier, expectedState: state }
  const tokens = await client.authorizationCodeGrant(config, new URL(request.originalUrl, origin), checks)
  open(response, keep(tokens))
  response.redirect('/')
})

app.listen(3000, '127.0.0.1')
