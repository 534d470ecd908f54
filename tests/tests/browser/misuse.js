// Appended to the example's app.js: buttons that send what an app should not, and show what a page can read of the refusals.

const button = (text, press) => {
  const made = document.createElement('button');
  made.textContent = text;
  made.onclick = press;
  document.body.append(made);
};

// A DPoP proof (RFC 9449). The private key cannot leave the browser.
const keys = crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']);
async function proof(htm, htu) {
  const { privateKey, publicKey } = await keys;
  const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', publicKey);
  const bytes = value => new TextEncoder().encode(value);
  const part = value => base64url(bytes(JSON.stringify(value)));
  const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } };
  const input = `${part(header)}.${part({ jti: random(), htm, htu, iat: Math.floor(Date.now() / 1000) })}`;
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, bytes(input));
  return `${input}.${base64url(signature)}`;
}

async function read(headers) {
  try {
    const response = await fetch(`${api}/api/projects`, { headers });
    const id = response.headers.get('x-request-id') ? 'with' : 'without';
    const nonce = response.headers.get('dpop-nonce');
    const challenge = response.headers.get('www-authenticate').replaceAll('"', "'");
    say(`Refused ${id} a request id: ${challenge}${nonce ? ', and the nonce can be read' : ''}`);
  } catch (error) {
    say(`No answer: ${error.name}`);
  }
}

button('Call the API without a token', () => read({}));
button('Call the API with a wrong token', () => read({ authorization: 'Bearer a.b.c' }));
button('Call the API with a proof', async () =>
  read({ authorization: 'DPoP a.b.c', dpop: await proof('GET', `${api}/api/projects`) }));
button('Use a wrong verifier', () => exchange('not-a-code', random()));
button('Use a wrong verifier with a proof', async () =>
  exchange('not-a-code', random(), { dpop: await proof('POST', `${lobby}/auth/token`) }));
