'use strict';
const { responseOf } = require('./lib/http.js');
const { version } = require('./package.json');

module.exports = { ...require('./lib/client.js'), ...require('./lib/errors.js'), responseOf, version };
