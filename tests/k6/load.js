// Every grant and the API under load, side by side: `k6 run tests/k6/load.js`. RATE scales all of it (1), DURATION is
// how long it lasts (1m). See pair.js for the other environment variables.

import {
  clientCredentials,
  installedCode,
  jwtBearer,
  projects,
  webCode,
  webRefresh,
} from './pair.js'

const rate = Number(__ENV.RATE || 1)
const duration = __ENV.DURATION || '1m'

// Requests a second, and the users that may be needed for them.
const scenario = (exec, perSecond, vus) => ({
  executor: 'constant-arrival-rate',
  exec,
  rate: Math.max(1, Math.round(perSecond * rate)),
  timeUnit: '1s',
  duration,
  preAllocatedVUs: vus,
  maxVUs: vus * 10,
})

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
    'http_req_duration{name:api}': ['p(95)<50'],
    'http_req_duration{name:client_credentials}': ['p(95)<100'],
    'http_req_duration{name:refresh_token}': ['p(95)<150'],
    'http_req_duration{name:authorization_code}': ['p(95)<150'],
    'http_req_duration{name:jwt_bearer}': ['p(95)<150'],
    // argon2id takes its time on purpose.
    'http_req_duration{name:sign-in}': ['p(95)<1000'],
  },
}

// One token for all calls of the API, as most clients keep theirs for its hour.
export function setup() {
  return { accessToken: clientCredentials().access_token }
}

export function signIn() {
  webCode()
}

export function signInInstalled() {
  installedCode()
}

let refreshToken

export function refresh() {
  refreshToken = refreshToken || webCode().refresh_token
  refreshToken = webRefresh(refreshToken).refresh_token
}

export async function bearer() {
  await jwtBearer()
}

export function credentials() {
  clientCredentials()
}

export function callApi({ accessToken }) {
  projects(accessToken)
}
