// PKCE from a page without a server (RFC 7636). Who serves this file declares `lobby` and `api`.
const client = { client_id: 'installed-demo', redirect_uri: `${location.origin}/callback` };
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

// A DPoP proof (RFC 9449). The private key cannot leave the browser.
const keys = crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']);
async function proof(htm, htu, claims = {}) {
  const { privateKey, publicKey } = await keys;
  const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', publicKey);
  const bytes = value => new TextEncoder().encode(value);
  const part = value => base64url(bytes(JSON.stringify(value)));
  const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } };
  const input = `${part(header)}.${part({ jti: random(), htm, htu, iat: Math.floor(Date.now() / 1000), ...claims })}`;
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, bytes(input));
  return `${input}.${base64url(signature)}`;
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

async function call(headers) {
  try {
    const response = await fetch(`${api}/api/projects`, { headers });
    const answer = await response.json();
    if (response.ok) return say(`Hello ${answer['x-auth-subject']}`);
    const id = response.headers.get('x-request-id') ? 'with' : 'without';
    const nonce = response.headers.get('dpop-nonce');
    const challenge = response.headers.get('www-authenticate').replaceAll('"', "'");
    say(`Refused ${id} a request id: ${challenge}${nonce ? ', and the nonce can be read' : ''}`);
  } catch (error) {
    say(`No answer: ${error.name}`);
  }
}

const exchange = (code, verifier, headers) =>
  ask('Signed in', { ...client, grant_type: 'authorization_code', code, code_verifier: verifier }, headers);

document.getElementById('sign-in').onclick = startSignIn;
document.getElementById('refresh').onclick = () =>
  ask('Refreshed', { client_id: client.client_id, grant_type: 'refresh_token', refresh_token: refreshToken });
document.getElementById('call').onclick = () => call({ authorization: `Bearer ${accessToken}` });
document.getElementById('call-without').onclick = () => call({});
document.getElementById('call-wrong').onclick = () => call({ authorization: 'Bearer a.b.c' });
document.getElementById('call-proved').onclick = async () =>
  call({ authorization: 'DPoP a.b.c', dpop: await proof('GET', `${api}/api/projects`) });
document.getElementById('wrong').onclick = () => exchange('not-a-code', random());
document.getElementById('wrong-proved').onclick = async () =>
  exchange('not-a-code', random(), { dpop: await proof('POST', `${lobby}/auth/token`) });

const answer = new URLSearchParams(location.search);
const pending = JSON.parse(sessionStorage.getItem('pending'));
if (answer.has('code')) {
  sessionStorage.removeItem('pending');
  if (answer.get('state') === pending?.state && answer.get('iss') === lobby) {
    exchange(answer.get('code'), pending.verifier);
  } else {
    say('Refused: this answer is not for us');
  }
}
