// Every grant and the API, once each: `k6 run tests/k6/smoke.js`, with k6 1.1 or newer. See pair.js for the environment
// variables.

import http from 'k6/http'
import {
  SIGN_IN,
  clientCredentials,
  installedCode,
  installedRefresh,
  iteration,
  jwtBearer,
  lobby,
  people,
  projects,
  projectsWithout,
  thresholds,
  webCode,
  webRefresh,
} from './pair.js'

export const options = {
  vus: 1,
  iterations: 1,
  thresholds: {
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    ...thresholds([
      ...SIGN_IN,
      'api',
      'api-without-token',
      'authorization_code',
      'client_credentials',
      'jwt_bearer',
      'refresh_token',
    ]),
  },
}

export default iteration(async () => {
  projectsWithout()
  const web = webCode(people[0])
  projects(web.access_token)
  projects(webRefresh(web.refresh_token).access_token)
  projects((await jwtBearer()).access_token)
  projects(clientCredentials().access_token)
  // The browser has the first person's session: another person starts a new session.
  http.cookieJar().clear(lobby)
  const installed = installedCode(people[people.length - 1])
  projects(installed.access_token)
  projects(installedRefresh(installed.refresh_token).access_token)
})
