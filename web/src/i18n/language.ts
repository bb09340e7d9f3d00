// Which language a page speaks. Texts stand in tables, one per language, of one type: a missing sentence does not compile.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { en } from "./en";
import { ko } from "./ko";

export const kLanguages = { en: "English", ko: "한국어" } as const;
export type Language = keyof typeof kLanguages;

const kKey = "dure-language";
const kShared = { en, ko };

const isLanguage = (value: unknown): value is Language => typeof value === "string" && value in kLanguages;

// What the person chose before, else the first of the browser's languages that there is.
export function firstLanguage(chosen: string | null, preferred: readonly string[]): Language {
  if (isLanguage(chosen)) return chosen;
  return preferred.map((tag) => tag.toLowerCase().split("-")[0]).find(isLanguage) ?? "en";
}

export function storedLanguage(): string | null {
  try {
    return localStorage.getItem(kKey);
  } catch {
    return null;
  }
}

export function storeLanguage(language: Language): void {
  try {
    localStorage.setItem(kKey, language);
  } catch {
    // Then it holds until the page is closed.
  }
}

export const LanguageContext = createContext<{ language: Language; setLanguage: (language: Language) => void }>({
  language: "en",
  setLanguage: () => {},
});

export const useLanguage = () => useContext(LanguageContext);

// What all pages say.
export const useShared = () => kShared[useLanguage().language];

// A hook for the texts of one page: `const useText = textsOf({ en, ko })`.
export const textsOf =
  <T>(tables: Record<Language, T>) =>
  (): T =>
    tables[useLanguage().language];
