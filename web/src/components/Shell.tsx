// What every page has around it: name, title, language.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  firstLanguage,
  kLanguages,
  LanguageContext,
  storedLanguage,
  storeLanguage,
  useLanguage,
  useShared,
  type Language,
} from "../i18n/language";

export function WithLanguage({ children }: { children: ComponentChildren }) {
  const [language, setLanguage] = useState<Language>(() => firstLanguage(storedLanguage(), navigator.languages));
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const choose = (chosen: Language): void => {
    storeLanguage(chosen);
    setLanguage(chosen);
  };
  return <LanguageContext.Provider value={{ language, setLanguage: choose }}>{children}</LanguageContext.Provider>;
}

export function Shell({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <>
      <header class="top">
        <p class="brand">Dure</p>
        <h1>{title}</h1>
        <LanguageSwitch />
      </header>
      <main>{children}</main>
    </>
  );
}

function LanguageSwitch() {
  const { language, setLanguage } = useLanguage();
  const shared = useShared();
  return (
    <div class="languages" role="group" aria-label={shared.language}>
      {(Object.keys(kLanguages) as Language[]).map((each) => (
        <button type="button" key={each} lang={each} aria-pressed={each === language} onClick={() => setLanguage(each)}>
          {kLanguages[each]}
        </button>
      ))}
    </div>
  );
}
