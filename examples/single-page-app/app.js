// Signs people in from a page without a server (authorization code with PKCE, RFC 7636), and calls the API.
const lobby = 'http://127.0.0.1:8081'; // the issuer
const api = 'http://127.0.0.1:8080';
const client = { client_id: 'spa', redirect_uri: `${location.origin}/` };

// Only in memory: a script that a page runs by mistake later finds no token in its storage.
let refreshToken;
let accessToken;

const base64url = bytes =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const say = text => { document.getElementById('status').textContent = text; };

async function startSignIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem('pending', JSON.stringify({ verifier, state }));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  location.href = `${lobby}/auth/authorize?` + new URLSearchParams({
    ...client, state, response_type: 'code', code_challenge: base64url(digest), code_challenge_method: 'S256',
  });
}

async function ask(done, fields, headers = {}) {
  try {
    const response = await fetch(`${lobby}/auth/token`, { method: 'POST', headers, body: new URLSearchParams(fields) });
    const answer = await response.json();
    if (!response.ok) return say(`Refused: ${answer.error}`);
    refreshToken = answer.refresh_token;
    accessToken = answer.access_token;
    say(`${done}: ${answer.token_type} for ${answer.expires_in} seconds`);
  } catch (error) {
    say(`No answer: ${error.name}`);
  }
}

const exchange = (code, verifier, headers) =>
  ask('Signed in', { ...client, grant_type: 'authorization_code', code, code_verifier: verifier }, headers);

async function call(headers) {
  try {
    const response = await fetch(`${api}/api/projects`, { headers });
    if (response.ok) return say(`The API answers: ${await response.text()}`);
    say(`Refused: ${response.status} ${response.headers.get('www-authenticate')}`);
  } catch (error) {
    say(`No answer: ${error.name}`);
  }
}

document.getElementById('sign-in').onclick = startSignIn;
document.getElementById('refresh').onclick = () =>
  ask('Refreshed', { client_id: client.client_id, grant_type: 'refresh_token', refresh_token: refreshToken });
document.getElementById('call').onclick = () => call({ authorization: `Bearer ${accessToken}` });

const answer = new URLSearchParams(location.search);
const pending = JSON.parse(sessionStorage.getItem('pending'));
if (answer.has('code')) {
  sessionStorage.removeItem('pending');
  history.replaceState(null, '', '/');
  if (answer.get('state') === pending?.state && answer.get('iss') === lobby) {
    exchange(answer.get('code'), pending.verifier);
  } else {
    say('Refused: this answer is not for us');
  }
}
