// Gets a token, and calls the API with it: `k6 run api.js`.

import { check } from 'k6'
import encoding from 'k6/encoding'
import http from 'k6/http'

const issuer = 'http://127.0.0.1:8081'
const api = 'http://127.0.0.1:8080/api/projects'
const clientId = __ENV.CLIENT_ID || 'user-bound-demo'
const clientSecret = __ENV.CLIENT_SECRET || 'demo-secret-of-user-bound-demo-not-for-real-use'
// The linked account, for a user who has several.
const account = { user_id: '1879048403', user_site: 'https://us1.example.com' }

export const options = {
  vus: 5,
  duration: '2s',
  thresholds: { checks: ['rate==1'] },
}

// One token for the whole run: a token is valid for an hour.
export function setup() {
  const basic = encoding.b64encode(`${clientId}:${clientSecret}`)
  const form = { grant_type: 'client_credentials', ...account }
  const answer = http.post(`${issuer}/auth/token`, form, { headers: { Authorization: `Basic ${basic}` } })
  if (answer.status !== 200) {
    throw new Error(`No token: ${answer.status} ${answer.body}`)
  }
  return answer.json('access_token')
}

export default function (token) {
  const answer = http.get(api, { headers: { Authorization: `Bearer ${token}` } })
  check(answer, { 'the API lets the request in': (reply) => reply.status === 200 })
}
