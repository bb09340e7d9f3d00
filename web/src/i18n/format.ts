// Numbers and times as the language writes them.
import type { Language } from "./language";

// 0.9312 as "93.1%". What is not quite certain is never shown as 100% or 0%.
export function percent(value: number, language: Language): string {
  const shown = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1, minimumFractionDigits: 1 });
  if (value > 0.9995 && value < 1) return `> ${shown.format(0.999)}`;
  if (value > 0 && value < 0.0005) return `< ${shown.format(0.001)}`;
  return shown.format(value);
}

// A difference of two probabilities, in percentage points: "+11.2", "−3.0".
export const points = (value: number, language: Language): string =>
  new Intl.NumberFormat(language, { signDisplay: "exceptZero", maximumFractionDigits: 1, minimumFractionDigits: 1 })
    .format(value * 100)
    .replace("-", "−");

export const whole = (value: number, language: Language): string =>
  new Intl.NumberFormat(language, { maximumFractionDigits: 0 }).format(value);

// Enough digits to tell two values apart, no more.
export const measured = (value: number, language: Language): string =>
  new Intl.NumberFormat(language, { maximumSignificantDigits: 4 }).format(value);

// An ISO time in the reader's own zone; as it stands if it is none.
export function moment(iso: string, language: Language): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(date);
}
