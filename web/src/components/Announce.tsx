// Says a sentence to screen readers, once it has stood still: what changes while somebody draws is not read out each time.
import { useEffect, useState } from "preact/hooks";

export function Announce({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSaid(text), 800);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <p class="unseen" role="status">
      {said}
    </p>
  );
}
