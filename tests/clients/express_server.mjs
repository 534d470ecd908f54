// A resource server on Express, which ignores the case of letters in routes. It prints a line for each request that it serves:
// its route under the name that CGI has for it, and the headers that the guard sets.

import express from 'express'

const [port] = process.argv.slice(2)
const app = express()
const serve = (request, response) => {
  const fields = [`SCRIPT_NAME=${request.route.path}`]
  for (const name of ['X-Test', 'X-User-Id', 'X-Client-Id', 'X-Scope', 'Authorization']) {
    const value = request.get(name)
    if (value !== undefined) fields.push(`HTTP_${name.toUpperCase().replaceAll('-', '_')}=${value}`)
  }
  const served = ['SERVED', ...fields].join('\n')
  console.log(served)
  response.send(served)
}
for (const route of ['/healthz', '/public/x', '/api/projects', '/api/documents/:id']) app.all(route, serve)
app.listen(Number(port), '127.0.0.1')
