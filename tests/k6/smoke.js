// Every grant and the API, once each: `k6 run tests/k6/smoke.js`. See pair.js for the environment variables.

import {
  clientCredentials,
  installedCode,
  installedRefresh,
  jwtBearer,
  projects,
  projectsWithout,
  webCode,
  webRefresh,
} from './pair.js'

export const options = {
  vus: 1,
  iterations: 1,
  thresholds: {
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
  },
}

export default async function () {
  projectsWithout()
  const web = webCode()
  projects(web.access_token)
  projects(webRefresh(web.refresh_token).access_token)
  const installed = installedCode()
  projects(installed.access_token)
  projects(installedRefresh(installed.refresh_token).access_token)
  projects((await jwtBearer()).access_token)
  projects(clientCredentials().access_token)
}
