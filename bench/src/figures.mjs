/** Owns the figures of a run: the selection of samples, their median, and how a figure is printed. */

/**
 * @param {import('./trials.mjs').Sample[]} samples
 * @param {string} caseLabel
 * @param {string} system
 * @param {string} key
 */
export function figures(samples, caseLabel, system, key) {
  return samples
    .filter((sample) => sample.system === system && sample.caseLabel === caseLabel)
    .flatMap((sample) => sample.values[key] ?? []);
}

/** @param {number[]} values */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Prints only significant digits. NaN stands for what was not measured, infinity for what never happened.
 *
 * @param {number} value
 */
export function figure(value) {
  if (Number.isNaN(value)) return '-';
  if (value === Number.POSITIVE_INFINITY) return 'never';
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(value >= 10 ? 3 : 2)));
}
