// Asks for the server's bearer token.
import { useEffect, useRef, useState } from "preact/hooks";
import { useShared } from "../i18n/language";

export function TokenDialog({ refused, onToken }: { refused: boolean; onToken: (token: string) => void }) {
  const shared = useShared();
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState("");
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    // Without the token there is nothing behind it: Escape leaves it open.
    <dialog ref={dialog} aria-labelledby="token-title" onCancel={(event) => event.preventDefault()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (value.trim()) onToken(value.trim());
        }}
      >
        <h2 id="token-title">{shared.token_title}</h2>
        <p>{shared.token_text}</p>
        <label for="token">{shared.token_label}</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          required
          value={value}
          aria-invalid={refused}
          aria-describedby="token-problem"
          onInput={(event) => setValue(event.currentTarget.value)}
        />
        <p id="token-problem" class="problem" role="alert">
          {refused ? shared.token_wrong : ""}
        </p>
        <button type="submit" class="primary">
          {shared.token_send}
        </button>
      </form>
    </dialog>
  );
}
