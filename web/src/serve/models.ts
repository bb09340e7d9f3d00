// The server's models, asked for again and again: every 2 s while something is missing, every 10 s otherwise.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { HttpError, token } from "../net/http";
import { fetchModels, type Model } from "./api";

export interface Models {
  // Undefined until the first answer.
  models: Model[] | undefined;
  // The server does not answer, or answers with an error.
  problem: HttpError | undefined;
  wants_token: boolean;
  token_refused: boolean;
  refresh: () => void;
  giveToken: (value: string) => void;
}

export const pauseFor = (models: Model[] | undefined, problem: boolean): number =>
  problem || !models || models.some((model) => model.state !== "ready") ? 2000 : 10000;

export function useModels(): Models {
  const [models, setModels] = useState<Model[]>();
  const [problem, setProblem] = useState<HttpError>();
  const [wants_token, setWantsToken] = useState(false);
  const [token_refused, setTokenRefused] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const turn = useRef(0);

  const ask = useCallback(async (): Promise<void> => {
    clearTimeout(timer.current);
    const mine = ++turn.current;
    let pause = pauseFor(undefined, true);
    try {
      const found = await fetchModels();
      if (mine !== turn.current) return;
      setModels(found);
      setProblem(undefined);
      setWantsToken(false);
      setTokenRefused(false);
      pause = pauseFor(found, false);
    } catch (error) {
      if (mine !== turn.current) return;
      if (error instanceof HttpError && error.status === 401) {
        // The person's turn: asking on would only fill the server's log.
        setTokenRefused(token.get() !== "");
        setWantsToken(true);
        setProblem(undefined);
        return;
      }
      setProblem(error instanceof HttpError ? error : new HttpError(0, ""));
    }
    timer.current = setTimeout(() => void ask(), pause);
  }, []);

  useEffect(() => {
    void ask();
    // Timers of a hidden page are slow.
    const seen = (): void => {
      if (!document.hidden) void ask();
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      ++turn.current;
      clearTimeout(timer.current);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [ask]);

  return {
    models,
    problem,
    wants_token,
    token_refused,
    refresh: () => void ask(),
    giveToken: (value) => {
      token.set(value);
      void ask();
    },
  };
}
