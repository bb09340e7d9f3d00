// What all pages say, in English; the type of every other language.
export const en = {
  language: "Language",
  copy: "Copy",
  copied: "Copied",
  copy_failed: "Copying is not possible here: select the text instead.",
  no_answer: "The server does not answer. This page keeps trying.",
  token_title: "This server wants a token",
  token_text: "Enter the bearer token that the server was started with. It is kept until you close this tab.",
  token_label: "Token",
  token_send: "Continue",
  token_wrong: "The server does not accept this token.",
};

export type SharedText = typeof en;
