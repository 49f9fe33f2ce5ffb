// SHA-256 of a file of any size, a piece at a time: crypto.subtle wants the whole of it in memory, and is
// not there at all without https. FIPS 180-4; checked against node's in tests/browser/sha256.mjs.
const PIECE = 1 << 20;

// The first 32 bits of the fraction of each root; exact, because a double has 52.
function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((p) => n % p)) found.push(n);
  return found;
}

const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const K = Int32Array.from(primes(64), (p) => fraction(Math.cbrt(p)));
const START = Int32Array.from(primes(8), (p) => fraction(Math.sqrt(p)));

// All blocks of `data`. Plain variables: arrays and iterators make it ten times slower.
function compress(state, data, w) {
  let h0 = state[0], h1 = state[1], h2 = state[2], h3 = state[3], h4 = state[4], h5 = state[5], h6 = state[6], h7 = state[7];
  for (let at = 0; at < data.length; at += 64) {
    for (let i = 0, j = at; i < 16; i++, j += 4) w[i] = (data[j] << 24) | (data[j + 1] << 16) | (data[j + 2] << 8) | data[j + 3];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15];
      const y = w[i - 2];
      w[i] = (w[i - 16] + w[i - 7] + (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3))
        + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10))) | 0;
    }
    let a = h0, b = h1, c = h2, d = h3, e = h4, f = h5, g = h6, h = h7;
    for (let i = 0; i < 64; i++) {
      const one = (h + K[i] + w[i] + ((e & f) ^ (~e & g)) + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7)))) | 0;
      const two = ((((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    h0 = (h0 + a) | 0;
    h1 = (h1 + b) | 0;
    h2 = (h2 + c) | 0;
    h3 = (h3 + d) | 0;
    h4 = (h4 + e) | 0;
    h5 = (h5 + f) | 0;
    h6 = (h6 + g) | 0;
    h7 = (h7 + h) | 0;
  }
  state.set([h0, h1, h2, h3, h4, h5, h6, h7]);
}

// Of a Blob, in hexadecimal. Reading a piece lets the page breathe; `signal` ends it with an AbortError.
export async function sha256(blob, { signal, progress = () => {} } = {}) {
  const state = START.slice();
  const w = new Int32Array(64);
  for (let at = 0; at < blob.size || at === 0; at += PIECE) {
    signal?.throwIfAborted();
    let data = new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer());
    if (at + PIECE >= blob.size) {
      const whole = new Uint8Array((data.length + 9 + 63) & ~63);
      whole.set(data);
      whole[data.length] = 0x80;
      const bits = new DataView(whole.buffer, whole.length - 8);
      bits.setUint32(0, Math.floor(blob.size / 2 ** 29));
      bits.setUint32(4, (blob.size % 2 ** 29) * 8);
      data = whole;
    }
    compress(state, data, w);
    progress(Math.min(at + PIECE, blob.size));
  }
  return [...state].map((v) => (v >>> 0).toString(16).padStart(8, '0')).join('');
}
