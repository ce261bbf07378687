// The color of a number. Zero has the ground's color on every scale; NaN and the infinities stand on none.

const STEPS = 255;
export const [FINITE, NAN, MINUS_INFINITY, INFINITY] = [0, 1, 2, 3];

/** Whether a number is finite, NaN, −∞ or ∞. */
export function kindOf(value) {
  if (Number.isFinite(value)) return FINITE;
  if (Number.isNaN(value)) return NAN;
  return value < 0 ? MINUS_INFINITY : INFINITY;
}

const parsed = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

/** `STEPS + 1` colors from the ground through a middle to an end, as bytes. */
function ramp(ground, middle, end) {
  const colors = new Uint8Array((STEPS + 1) * 3);
  for (let step = 0; step <= STEPS; step++) {
    const share = (step / STEPS) * 2;
    const [from, to, part] = share < 1 ? [ground, middle, share] : [middle, end, share - 1];
    for (let k = 0; k < 3; k++) colors[step * 3 + k] = Math.round(from[k] + (to[k] - from[k]) * part);
  }
  return colors;
}

/** The colors of an element as CSS gives them now: ramps for numbers, flat colors for the rest. */
export function palette(element) {
  const style = getComputedStyle(element);
  const flat = (name) => style.getPropertyValue(name).trim();
  const rgb = (name) => parsed(flat(name));
  const ground = rgb("--ground");
  const ramped = (name) => ramp(ground, rgb(`--${name}-middle`), rgb(`--${name}`));
  return {
    warm: ramped("warm"), cold: ramped("cold"), rise: ramped("rise"),
    kinds: [ground, rgb("--nan"), rgb("--minus-infinity"), rgb("--infinity")],
    ink: flat("--ink"), faint: flat("--faint"), paper: flat("--paper"), line: flat("--line"), mark: flat("--mark"),
    markInk: flat("--mark-ink"), soft: flat("--soft"), light: flat("--light"), dark: flat("--dark"),
    onKind: flat("--on-kind"),
  };
}

/** A scale through zero: sequential where nothing is negative, else the same distance on both sides. */
export function scaleOf(min, max) {
  const known = min <= max;
  const most = known ? Math.max(Math.abs(min), Math.abs(max)) || 1 : 1;
  const kind = !known || min >= 0 ? "rise" : max <= 0 ? "cold" : "diverging";
  return { kind, most, low: kind === "rise" ? 0 : -most, high: kind === "cold" ? 0 : most };
}

/** Writes red, green and blue of a number into `target` from `at` on. */
export function writeColor(target, at, value, scale, colors) {
  const kind = kindOf(value);
  if (kind !== FINITE) return target.set(colors.kinds[kind], at);
  const step = Math.min(STEPS, Math.round((Math.abs(value) / scale.most) * STEPS)) * 3;
  const side = value < 0 ? colors.cold : scale.kind === "rise" ? colors.rise : colors.warm;
  [target[at], target[at + 1], target[at + 2]] = [side[step], side[step + 1], side[step + 2]];
}

/** Red, green and blue of a number. */
export function colorOf(value, scale, colors) {
  const channels = new Uint8ClampedArray(3);
  writeColor(channels, 0, value, scale, colors);
  return channels;
}

const linear = (channel) => (channel <= 10 ? channel / 3294.6 : ((channel / 255 + 0.055) / 1.055) ** 2.4);

/** The relative luminance of a color, as WCAG defines it. */
export const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
