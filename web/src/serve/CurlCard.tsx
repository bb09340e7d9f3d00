// What the page has sent, as commands to copy.
import { Command } from "../components/Command";
import { token, urlOf } from "../net/http";
import type { ModelRequest } from "./api";
import { curlCommand } from "./curl";
import { useText } from "./text";

export function CurlCard({ predict, explain }: { predict: ModelRequest | undefined; explain?: ModelRequest | undefined }) {
  const t = useText();
  const with_token = token.get() !== "";
  const command = (request: ModelRequest): string => curlCommand(urlOf(request.path), request.body, with_token);
  return (
    <section class="card curl" aria-labelledby="curl-title">
      <h2 id="curl-title">{t.curl_title}</h2>
      <p class="quiet">
        {predict ? t.curl_text : t.curl_before} {predict && with_token && t.curl_token}
      </p>
      {predict && <Command text={command(predict)} label={t.copy_predict} />}
      {explain && (
        <>
          <p class="quiet">{t.curl_words}</p>
          <Command text={command(explain)} label={t.copy_explain} />
        </>
      )}
    </section>
  );
}
