// Every grant and the API under load, side by side: `k6 run tests/k6/load.js`, with k6 1.1 or newer. RATE scales the
// load (1), DURATION is its duration (1m). pair.js lists the other environment variables, also those for the limits.

import {
  SIGN_IN,
  clientCredentials,
  installedCode,
  iteration,
  jwtBearer,
  load,
  projects,
  thresholds,
  webCode,
  webRefresh,
} from './pair.js'

const { rate, duration, scenario } = load('1m')

// Highest 95th percentiles of durations, in milliseconds.
const limits = {
  api: 50,
  authorization_code: 150,
  client_credentials: 100,
  jwt_bearer: 150,
  refresh_token: 150,
  // argon2id takes its time on purpose.
  'sign-in': 1000,
}

export const options = {
  scenarios: {
    sign_in: scenario('signIn', 4, 8),
    sign_in_installed: scenario('signInInstalled', 2, 8),
    refresh: {
      executor: 'constant-vus',
      exec: 'refresh',
      vus: Math.max(1, Math.round(8 * rate)),
      duration,
    },
    jwt_bearer: scenario('bearer', 20, 10),
    client_credentials: scenario('credentials', 50, 10),
    api: scenario('callApi', 200, 20),
  },
  thresholds: {
    checks: ['rate>0.999'],
    http_req_failed: ['rate<0.001'],
    ...thresholds([...SIGN_IN, ...Object.keys(limits)], limits),
  },
}

// One token for all calls of the API, because most clients keep a token for its hour.
export function setup() {
  return { accessToken: clientCredentials().access_token }
}

export const signIn = iteration(() => webCode())

export const signInInstalled = iteration(() => installedCode())

let refreshToken

export const refresh = iteration(() => {
  refreshToken = refreshToken || webCode().refresh_token
  refreshToken = webRefresh(refreshToken).refresh_token
})

export const bearer = iteration(() => jwtBearer())

export const credentials = iteration(() => clientCredentials())

export const callApi = iteration(({ accessToken }) => projects(accessToken))
