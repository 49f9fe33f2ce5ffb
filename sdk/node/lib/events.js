'use strict';
const { NetworkError } = require('./errors.js');

const EVENT_MAX = 8 << 20;

/** Events of a text/event-stream as {event, data}, until it ends. Data is parsed, being JSON here always. */
async function* events(stream) {
  const decoder = new TextDecoder();
  let text = '';
  let event = 'message';
  let data = [];
  let size = 0;
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    // A CR at the end may be half of a CRLF.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    if (text.length + size > EVENT_MAX) throw new NetworkError('an event is too long');
    for (const line of lines) {
      const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
      if (line === '') {
        if (data.length) yield { event, data: JSON.parse(data.join('\n')) };
        event = 'message';
        data = [];
        size = 0;
      } else if (name === 'event') event = value ?? '';
      else if (name === 'data') size += data[data.push(value ?? '') - 1].length;
    }
  }
}

module.exports = { events };
