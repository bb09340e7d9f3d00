// Runs `work` for the newest value only: it waits until no other value has come for `delay` milliseconds, and a
// run whose value is no longer the newest is aborted.
export function latestOnly<T>(delay: number, work: (value: T, signal: AbortSignal) => Promise<void>) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: AbortController | undefined;
  const cancel = (): void => {
    clearTimeout(timer);
    running?.abort();
    running = undefined;
  };
  const start = (value: T): void => {
    cancel();
    const mine = new AbortController();
    running = mine;
    void work(value, mine.signal).finally(() => {
      if (running === mine) running = undefined;
    });
  };
  return {
    // After the delay.
    later: (value: T): void => {
      clearTimeout(timer);
      timer = setTimeout(() => start(value), delay);
    },
    now: start,
    cancel,
  };
}

// As latestOnly, for a value that changes all the time: never two at once, at least `delay` milliseconds from one to the
// next, and the last value is always worked on. Nothing is aborted, so that something is seen while it changes.
export function steadily<T>(delay: number, work: (value: T) => Promise<void>) {
  let waiting: { value: T } | undefined;
  let busy = false;
  let stopped = false;
  const run = async (): Promise<void> => {
    busy = true;
    while (waiting && !stopped) {
      const { value } = waiting;
      waiting = undefined;
      const pause = new Promise((resolve) => setTimeout(resolve, delay));
      await work(value);
      await pause;
    }
    busy = false;
  };
  return {
    push: (value: T): void => {
      waiting = { value };
      if (!busy && !stopped) void run();
    },
    drop: (): void => {
      waiting = undefined;
    },
    stop: (): void => {
      stopped = true;
    },
  };
}
