// The catalogue of texts and the choice of language. A text is a pair [English, Portuguese], or with a `|` between its forms for
// one and for many, chosen by the value `n`. {names} stand for figures and names.
const LANGUAGE = 'dataflow.language';
const texts = {};

export const languages = { en: 'English', pt: 'Português (Brasil)' };
const chosen = localStorage.getItem(LANGUAGE);
export const language = chosen || (/^pt\b/i.test(navigator.language) ? 'pt' : 'en');
export const locale = language === 'pt' ? 'pt-BR' : 'en';

export const add = (catalogue) => Object.assign(texts, catalogue);
export const has = (key) => Object.hasOwn(texts, key);

export const number = (value) => (typeof value === 'number' ? value.toLocaleString(locale, { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2 }) : value);

export function t(key, values = {}) {
  const pair = texts[key];
  if (!pair) throw new Error(`no text: ${key}`);
  const forms = pair[language === 'pt' ? 1 : 0].split('|');
  const form = forms.length > 1 && values.n === 1 ? forms[0] : forms.at(-1);
  const said = form.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? number(values[name]) : whole));
  return language === 'zz' ? `⟦${said}⟧` : said; // for the test that finds what is not in the catalogue
}

// The text of what the server names (`state.Sent`), or the name itself.
export const named = (kind, name) => (has(`${kind}.${name}`) ? t(`${kind}.${name}`) : name);

export function setLanguage(name) {
  localStorage.setItem(LANGUAGE, name);
  location.reload();
}

document.documentElement.lang = locale;
