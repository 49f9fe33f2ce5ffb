'use strict';
const { NetworkError } = require('./errors.js');

const EVENT_MAX = 8 << 20;

/** Events of a text/event-stream as {event, data}, until it ends. Data is parsed, being JSON here always. */
async function* events(stream) {
  const decoder = new TextDecoder();
  let text = '';
  let event = 'message';
  let data = [];
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    // A CR at the end may be half of a CRLF.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    if (text.length > EVENT_MAX) throw new NetworkError('an event is too long');
    for (const line of lines) {
      const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
      if (line === '') {
        if (data.length) yield { event, data: JSON.parse(data.join('\n')) };
        event = 'message';
        data = [];
      } else if (name === 'event') event = value ?? '';
      else if (name === 'data') data.push(value ?? '');
    }
  }
}

module.exports = { events };
