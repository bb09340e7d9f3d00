import { textsOf } from "../i18n/language";
import { en } from "./text_en";
import { ko } from "./text_ko";

export const useText = textsOf({ en, ko });

// Models of reviews know English words, whatever language the page speaks.
export const kExampleReviews = [
  "A warm, funny and beautifully acted film. I loved every minute of it, and the ending is one of the best I have ever seen.",
  "Dull, predictable and far too long. The plot makes no sense, the acting is terrible, and I wanted my money back.",
  "The actors are great and the music is wonderful, but the story is boring and the last half hour is a complete mess.",
];
