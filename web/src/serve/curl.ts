// The curl command for a request, for a POSIX shell.

// In single quotes, in which nothing has a meaning but the quote itself.
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

// With a token the command reads it from $TOKEN: it must not stand on a screen or in a shell's history.
export function curlCommand(url: string, body: string, withToken: boolean): string {
  const lines = [`curl ${shellQuoted(url)}`, "-H 'Content-Type: application/json'"];
  if (withToken) lines.push('-H "Authorization: Bearer $TOKEN"');
  lines.push(`-d ${shellQuoted(body)}`);
  return lines.join(" \\\n  ");
}
