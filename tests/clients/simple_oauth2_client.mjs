// Code, refresh and client credentials with simple-oauth2, for clients with a secret.

import { AuthorizationCode, ClientCredentials } from 'simple-oauth2'
import { ask, lobby, secretOf } from './support.mjs'

const clientOf = (id, more) => ({
  client: { id, secret: secretOf(id) },
  auth: { tokenHost: lobby, tokenPath: '/auth/token', revokePath: '/auth/revoke', ...more },
})

const web = new AuthorizationCode(clientOf('web-demo', { authorizePath: '/auth/authorize' }))
const redirect_uri = 'https://app.example.com/callback'
const end = new URL(await ask('OPEN', web.authorizeURL({ redirect_uri, scope: 'projects', state: 'abc' })))
let token = await web.getToken({ code: end.searchParams.get('code'), redirect_uri })
await ask('TOKEN', 'authorization_code', token.token.access_token)
token = await token.refresh()
await ask('TOKEN', 'refresh_token', token.token.access_token)
await token.revoke('refresh_token')

const userBound = new ClientCredentials(clientOf('user-bound-demo'))
const issued = await userBound.getToken({ user_id: '1879048403', user_site: 'https://us1.example.com' })
await ask('TOKEN', 'client_credentials', issued.token.access_token)

process.exit(0)
