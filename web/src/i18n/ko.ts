import type { SharedText } from "./en";

export const ko: SharedText = {
  language: "언어",
  copy: "복사",
  copied: "복사했습니다",
  copy_failed: "여기서는 자동으로 복사할 수 없습니다. 직접 선택해서 복사하세요.",
  no_answer: "서버가 응답하지 않습니다. 계속 다시 시도합니다.",
  token_title: "토큰이 필요한 서버입니다",
  token_text: "서버를 시작할 때 지정한 토큰(bearer token)을 입력하세요. 이 탭을 닫을 때까지만 보관합니다.",
  token_label: "토큰",
  token_send: "계속",
  token_wrong: "서버가 이 토큰을 받아들이지 않았습니다.",
};
