// The text with each word marked by how it moved the prediction, and the strongest words as a table.
import { points } from "../i18n/format";
import { useLanguage } from "../i18n/language";
import type { Explanation, Model, Word } from "./api";
import { outcomeOf } from "./classes";
import { isBinary } from "./OutcomeCard";
import { useText } from "./text";
import { piecesOf, strengthOf, strongestOf, topWords, type Piece } from "./words";

const kMostInTable = 8;

interface Props {
  model: Model;
  text: string;
  outputs: number[];
  // Undefined while the server is looking at it.
  explanation: Explanation | undefined;
  failed: boolean;
}

export function WordsCard({ model, text, outputs, explanation, failed }: Props) {
  const t = useText();
  if (!explanation && failed) return null;
  return (
    <section class="card words" aria-labelledby="words-title">
      <h2 id="words-title">{t.words_title}</h2>
      {explanation ? (
        <Explained model={model} text={text} outputs={outputs} explanation={explanation} />
      ) : (
        <p class="quiet">{t.words_waiting}</p>
      )}
    </section>
  );
}

function Explained({ model, text, outputs, explanation }: Omit<Props, "failed"> & { explanation: Explanation }) {
  const t = useText();
  const { language } = useLanguage();
  const sides = useSides(model, outputs);
  const words = explanation.words;
  const strongest = strongestOf(words);
  const top = topWords(words, kMostInTable);
  return (
    <>
      <p class="quiet">{t.words_text}</p>
      <ul class="legend">
        <li>
          <mark class="one s3">Aa</mark> {sides.one}
        </li>
        <li>
          <mark class="other s3">Aa</mark> {sides.other}
        </li>
        {words.some((word) => !word.known) && (
          <li>
            <span class="unknown">Aa</span> {t.unknown_word}
          </li>
        )}
      </ul>
      <p class="marked" role="group" aria-label={t.marked_text}>
        {piecesOf(text, words).map((piece, index) => (
          <Marked key={index} piece={piece} strongest={strongest} top={top} sides={sides} />
        ))}
      </p>
      {explanation.truncated && <p class="quiet">{t.truncated(String(model.input?.shape?.[0] ?? ""))}</p>}
      {top.length === 0 ? (
        <p class="quiet">{t.words_none}</p>
      ) : (
        <table>
          <caption>{t.top_words}</caption>
          <thead>
            <tr>
              <th scope="col">{t.word}</th>
              <th scope="col">{t.effect}</th>
            </tr>
          </thead>
          <tbody>
            {top.map((word) => (
              <tr key={word.text}>
                <th scope="row">{word.text}</th>
                <td>
                  <span class={`swatch ${sides.of(word)}`} aria-hidden="true" />{" "}
                  {points(Math.abs(word.weight), language).replace("+", "")}{" "}
                  {sides.of(word) === "one" ? sides.one : sides.other}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

interface Sides {
  one: string;
  other: string;
  of: (word: Word) => "one" | "other";
}

// Two classes each have a colour of their own. Of more, words speak for the predicted class or against it.
function useSides(model: Model, outputs: number[]): Sides {
  const t = useText();
  const outcome = outcomeOf(model, outputs, [t.negative, t.positive]);
  const best = outcome.ranked[0];
  const name = (index: number): string =>
    outcome.ranked.find((each) => each.index === index)?.name || t.class_number(index);
  if (isBinary(model, outputs)) {
    const is_second = best?.index === 1;
    return {
      one: t.towards(name(1)),
      other: t.towards(name(0)),
      of: (word) => (word.weight >= 0 === is_second ? "one" : "other"),
    };
  }
  const predicted = name(best?.index ?? 0);
  return {
    one: t.towards(predicted),
    other: t.against(predicted),
    of: (word) => (word.weight >= 0 ? "one" : "other"),
  };
}

function Marked({ piece, strongest, top, sides }: { piece: Piece; strongest: number; top: Word[]; sides: Sides }) {
  const t = useText();
  const { language } = useLanguage();
  const word = piece.word;
  if (!word) return <>{piece.text}</>;
  if (!word.known) {
    return (
      <span class="unknown" title={t.unknown_word}>
        {piece.text}
      </span>
    );
  }
  const strength = strengthOf(word.weight, strongest);
  if (strength === 0) return <>{piece.text}</>;
  const side = sides.of(word);
  const effect = `${t.points(points(Math.abs(word.weight), language).replace("+", ""))} ${side === "one" ? sides.one : sides.other}`;
  return (
    <mark class={`${side} s${strength}`} title={effect}>
      {piece.text}
      {/* Read out for those that count: for every word it would bury the text. */}
      {top.includes(word) && <span class="unseen"> ({effect})</span>}
    </mark>
  );
}
