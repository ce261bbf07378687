// Elements, numbers and tokens as text: what every other module of a page begins with.

/** An element with attributes and children; text becomes text nodes, functions under `on…` become listeners. */
export function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const DIGITS = 4;
const WRITTEN_OUT_BELOW = 1e7; // larger numbers take an exponent
const [LEAST_NOISE, MOST_NOISE] = [1e-20, 1e-14]; // rounding error of float64 where numbers near one cancel

/** A positive number as one digit, a point, the other digits and an exponent; halves go to the even digit. */
function rounded(size, digits) {
  const nearest = size.toExponential(digits - 1);
  const [exact, power] = size.toExponential(40).split("e");
  if (!/^50*$/.test(exact.slice(digits + 1))) return nearest;
  const kept = exact.slice(0, digits + 1); // the digits below the half, and the point
  return "02468".includes(kept.at(-1)) ? `${kept}e${power}` : nearest;
}

const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** A number in a few significant digits with a true minus sign, as the library writes it; NaN and ±∞ by name. */
export function numberText(value, digits = DIGITS) {
  const x = Number(value); // "NaN", "Infinity" and "-Infinity" of JSON are read as well
  if (Number.isNaN(x)) return "NaN";
  const size = Math.abs(x);
  const sign = x < 0 ? "−" : "";
  if (size === Infinity) return `${sign}∞`;
  if (size === 0 || (LEAST_NOISE < size && size < MOST_NOISE)) return "0";
  const [mantissa, power] = rounded(size, digits).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return sign + trimmed(Number(`${mantissa}e${power}`).toFixed(digits - 1 - exponent));
  if (exponent >= digits && size < WRITTEN_OUT_BELOW) return sign + Number(rounded(size, exponent + 1)).toFixed(0);
  return `${sign}${trimmed(mantissa)}e${exponent}`;
}

const VISIBLE = { " ": "␣", "\n": "↵", "\t": "⇥", "\u00a0": "⍽", "\u007f": "␡" };

/** A token with its spaces, line breaks and control characters visible. */
export function tokenText(token) {
  return String(token).replace(/[\u0000-\u0020\u007f\u00a0]/g, (c) => VISIBLE[c] ?? String.fromCharCode(0x2400 + c.charCodeAt(0)));
}
