// Server-sent events of an import. EventSource could not send the credentials.
import { headers } from '../kit/api.js';

// {name, data} as they come, until the server ends the stream or it breaks; whoever reads it looks again by itself.
export async function* events(url, signal) {
  const answer = await fetch(url, { headers: headers(), cache: 'no-store', credentials: 'omit', signal });
  if (!answer.ok) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    kept += value;
    const whole = kept.split('\n\n');
    kept = whole.pop();
    for (const event of whole) {
      const name = /^event: (.*)$/m.exec(event)?.[1];
      const data = [...event.matchAll(/^data: (.*)$/gm)].map((line) => line[1]).join('\n');
      if (name && data) yield { name, data: JSON.parse(data) };
    }
  }
}
