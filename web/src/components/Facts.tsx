// Names and values, those that are known.
export type Fact = [name: string, value: string | undefined];

export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
